"""Images of a run: the splits, what the data decide, and mistakes before anything is built."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.data import ImageData, load_digits
from ebmjax.data._source import of_array
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.parts import image_data
from experiments.configs import igebm_digits, jem_digits, thermo_digits

FAMILIES = {"joint": jem_digits, "energy": igebm_digits, "latent": thermo_digits}
IMAGES = np.random.default_rng(0).integers(0, 256, (120, 8, 8, 3), np.uint8)
LABELS = np.arange(120) % 3


def digits(**changes):
    config = jem_digits.get_config()
    config.update_from_flattened_dict(changes)
    return config


def own(tmp_path, family="joint", arrays=None, **changes):
    """Configuration of a family with own images in an .npz file, as many as there are."""
    np.savez(tmp_path / "mine.npz", **({"images": IMAGES, "labels": LABELS} | (arrays or {})))
    config = FAMILIES[family].get_config("smoke")
    unset = dict.fromkeys(["image_size", "num_classes", "max_train", "max_test"])
    with config.unlocked():
        config.data.update({"name": "npz", "path": str(tmp_path / "mine.npz"), **unset})
    config.update_from_flattened_dict(changes)
    return config


def test_images_are_limited_and_in_the_right_split():
    images, _ = image_data.load(digits(**{"data.max_train": 30, "data.max_test": 20}))
    assert images.evaluated is images.monitored
    np.testing.assert_array_equal(images.train.images, load_digits("train").images[:30])
    np.testing.assert_array_equal(images.train.labels, load_digits("train").labels[:30])
    np.testing.assert_array_equal(images.monitored.images, load_digits("test").images[:20])
    assert images.about == (
        "train 30 of 1,440, 8x8x1, 10 classes",
        "test 20 of 357, 8x8x1, 10 classes",
    )


def by_share(labels, index):
    """Place of an image among those that are held out one after the other."""

    def share(i):
        later = np.count_nonzero(labels[i + 1 :] == labels[i])
        return (later + 0.5) / np.count_nonzero(labels == labels[i])

    # Of equal shares, the lower class comes first.
    shares = sorted((share(i), labels[i]) for i in range(len(labels)))
    return shares.index((share(index), labels[index]))


def test_a_model_is_chosen_by_training_images_that_it_never_saw():
    config = digits(**{"data.max_train": 30, "data.max_test": 20, "data.holdout": 8})
    kept, _ = image_data.load(config)
    train = load_digits("train").images
    labels = load_digits("train").labels[:30]
    # The last images of each class, by its share of the eight.
    held = [i for i in range(30) if by_share(labels, i) < 8]
    rest = [i for i in range(30) if i not in held]
    np.testing.assert_array_equal(kept.train.images, train[rest])
    np.testing.assert_array_equal(kept.train.labels, labels[rest])
    np.testing.assert_array_equal(kept.monitored.images, train[held])
    assert kept.evaluated is kept.monitored
    assert kept.about == ("train 30 of 1,440 (8 held out), 8x8x1, 10 classes",)
    config.evals.use_test_split = True
    kept, _ = image_data.load(config)
    np.testing.assert_array_equal(kept.train.images, train[rest])
    np.testing.assert_array_equal(kept.monitored.images, train[held])
    np.testing.assert_array_equal(kept.evaluated.images, load_digits("test").images[:20])
    config.data.holdout = 30
    with pytest.raises(ConfigError, match=r"holdout must leave .* it is 30 of 30"):
        image_data.load(config)


MESSAGE = r"split test: .*--config\.data\.test_split=NAME.*--config\.data\.holdout=0\.2"


def test_a_data_set_without_a_test_split_is_judged_by_what_is_held_out(tmp_path):
    images, found = image_data.load(own(tmp_path))
    assert (len(images.train.labels), len(images.monitored.labels)) == (96, 24)
    assert images.evaluated is images.monitored
    assert found.data.holdout == 24
    assert images.about[:2] == (
        "train 120 of 120 (24 held out), 8x8x3, 3 classes",
        "no test split: images held out, config.data.holdout=24, stand for it",
    )
    assert np.bincount(images.monitored.labels).tolist() == [8, 8, 8]
    with pytest.raises(ConfigError, match=MESSAGE):
        image_data.load(own(tmp_path, **{"data.holdout": 0}))
    config = own(tmp_path, **{"data.holdout": 4})
    assert len(image_data.load(config)[0].monitored.labels) == 4
    config.evals.use_test_split = True
    with pytest.raises(ConfigError, match=MESSAGE):
        image_data.load(config)


def test_another_split_is_not_left_out_in_silence(tmp_path):
    more = {"val_images": IMAGES[:7], "val_labels": LABELS[:7]}
    with pytest.raises(ConfigError, match=r"--config\.data\.test_split=val, or .*holdout=0\.2"):
        image_data.load(own(tmp_path, arrays=more))
    with pytest.raises(ConfigError, match=r"split hard: .*--config\.data\.holdout=0\.2"):
        image_data.load(own(tmp_path, **{"data.test_split": "hard"}))


@pytest.mark.parametrize("num_classes", [None, 0])
def test_a_number_and_its_fraction_hold_out_the_same_images(num_classes, tmp_path):
    held = [
        image_data.load(
            own(tmp_path, "energy", **{"data.holdout": holdout, "data.num_classes": num_classes})
        )
        for holdout in (30, 0.25)
    ]
    assert len(held[0][0].monitored.labels) == 30
    for one, other in zip(*(images for images, _ in held), strict=True):
        if not isinstance(one, ImageData):
            continue
        np.testing.assert_array_equal(one.images, other.images)
    # More images held out include fewer, so that a run may start from another one.
    more, _ = image_data.load(
        own(tmp_path, "energy", **{"data.holdout": 60, "data.num_classes": num_classes})
    )
    fewer = {image.tobytes() for image in held[0][0].monitored.images}
    assert fewer < {image.tobytes() for image in more.monitored.images}


def test_pixels_of_all_splits_have_the_range_of_the_training_images(tmp_path):
    signed = IMAGES / 127.5 - 1
    tests = {"test_images": np.abs(signed), "test_labels": LABELS}
    images, found = image_data.load(own(tmp_path, arrays={"images": signed, **tests}))
    assert found.data.range == (-1.0, 1.0)
    assert images.monitored.images.min() >= 127
    tests["test_images"] = IMAGES / 1.0
    with pytest.raises(ConfigError, match=r"split test: pixels .* -1..1 as those of the training"):
        image_data.load(own(tmp_path, arrays={"images": signed, **tests}))
    dark = own(tmp_path, arrays={"images": IMAGES / 16.0}, **{"data.range": (0, 255)})
    assert image_data.load(dark)[0].train.images.max() == 16


def test_rectangles_are_fitted_alike_in_all_splits(tmp_path):
    arrays = {"images": IMAGES[:, :, 1:], "test_images": IMAGES[:, :5], "test_labels": LABELS}
    config = own(tmp_path, arrays=arrays, **{"data.fit": "pad"})
    images, _ = image_data.load(config)
    assert images.train.images.shape == images.evaluated.images.shape == (120, 8, 8, 3)
    assert not images.train.images[:, :, -1].any()
    assert "padded to a square with black (fit=pad) from 8x7" in images.about[0]


def test_the_split_of_the_test_images_has_any_name(tmp_path):
    more = {"valid_images": IMAGES[:7], "valid_labels": LABELS[:7]}
    config = own(tmp_path, arrays=more, **{"data.test_split": "valid"})
    images, _ = image_data.load(config)
    assert len(images.monitored.labels) == 7
    assert images.about[1] == "valid 7 of 7, 8x8x3, 3 classes"


@pytest.mark.parametrize("num_classes", [None, 3, 0])
def test_the_data_decide_what_the_configuration_leaves_open(num_classes, tmp_path):
    config = own(tmp_path, "energy", **{"data.holdout": 10, "data.num_classes": num_classes})
    _, found = image_data.load(config)
    assert (found.data.image_size, found.data.max_train) == (8, 120)
    assert found.data.num_classes == (3 if num_classes is None else num_classes)
    assert (config.data.image_size, config.data.num_classes) == (None, num_classes)


def refused(tmp_path, expected, family="joint", arrays=None, **changes):
    with pytest.raises((ConfigError, FileNotFoundError), match=expected) as caught:
        build_experiment(own(tmp_path, family, arrays, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    return str(caught.value)


def test_mistakes_of_own_images_name_the_fields(tmp_path):
    refuse = partial(refused, tmp_path)
    held_out = {"data.holdout": 10}
    message = refuse("path does not exist", **{"data.path": str(tmp_path / "nothing.npz")})
    assert message.endswith("--config.data.path=.")
    assert "path must name an .npz file" in refuse("npz", **{"data.path": ""})
    for name in ("mine.npz", str(tmp_path)):
        refuse(r"name must be that of a data set .* Your own images", **{"data.name": name})
    refuse(r"got 0 to 600", arrays={"images": IMAGES * 600.0 / IMAGES.max()}, **held_out)
    refuse("labels must lie in 0..1; 40 of 120 do not", **{"data.num_classes": 2}, **held_out)
    gaps = {"images": IMAGES, "labels": 2 * LABELS}
    refuse(r"every class must have images, but classes \[1, 3\] of 5", arrays=gaps, **held_out)
    one = {"images": IMAGES[:1], "labels": LABELS[:1]}
    refuse("holdout must leave training images: it is 10 of 1", arrays=one, **held_out)
    one |= {"test_images": IMAGES[:1], "test_labels": LABELS[:1]}
    refuse("must be at most the number of training examples, 1 after", arrays=one)


@pytest.mark.parametrize("family", FAMILIES)
def test_images_without_labels_are_for_energies_and_latent_models(family, tmp_path):
    np.savez(tmp_path / "plain.npz", images=IMAGES)
    config = own(tmp_path, family, **{"data.holdout": 24})
    config.data.path = str(tmp_path / "plain.npz")
    if family == "joint":
        np.savez(tmp_path / "plain.npz", images=IMAGES, kind=np.arange(len(IMAGES)))
        unread = r"no labels \(train 120 .*, arrays or files not read: 1 \(kind\)\): add them"
        with pytest.raises(ConfigError, match=unread):
            build_experiment(config, tmp_path / "run")
        return
    about = build_experiment(config, tmp_path / "run").about_data
    read, *_, judge = about
    assert read == "train 120 of 120 (24 held out), 8x8x3, no classes"
    assert judge.startswith("FID compares features of a random network")


def test_test_images_have_the_form_and_the_classes_of_the_training_images(tmp_path):
    refuse = partial(refused, tmp_path)
    refuse(
        r"must have the shape of the training images, \(8, 8, 3\), got \(8, 8, 1\)",
        arrays={"test_images": IMAGES[..., :1], "test_labels": LABELS},
    )
    refuse(
        "must have the classes of the training images, labels, got none",
        arrays={"test_images": IMAGES},
    )


@pytest.mark.parametrize(("data_dir", "passed_on"), [("", None), ("/tmp", Path("/tmp"))])
def test_other_images_come_from_tfds(data_dir, passed_on, monkeypatch):
    asked = []

    def load(*arguments):
        asked.append(arguments)
        name, split, _, max_examples = arguments
        return of_array(*load_digits(split), name), max_examples

    monkeypatch.setattr("ebmjax.data._load.tfds_source", load)
    config = digits(**{"data.name": "svhn_cropped", "data.path": data_dir})
    config.data.update(image_size=16, max_train=30, max_test=20)
    images, _ = image_data.load(config)
    assert asked == [
        ("svhn_cropped", "train", passed_on, 30),
        ("svhn_cropped", "test", passed_on, 20),
    ]
    assert (len(images.train.images), len(images.monitored.images)) == (30, 20)
