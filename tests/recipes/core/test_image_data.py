"""Images of a run: the splits, what the data decide, and mistakes before anything is built."""

from functools import partial

import numpy as np
import pytest

from ebmjax import data
from ebmjax.data import load_digits
from ebmjax.recipes.core import families, image_data
from ebmjax.recipes.core.fields import ConfigError
from experiments.configs import igebm_digits, jem_digits, thermo_digits

FAMILIES = {"joint": jem_digits, "image": igebm_digits, "latent": thermo_digits}
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


def test_a_model_is_chosen_by_training_images_that_it_never_saw():
    config = digits(**{"data.max_train": 30, "data.max_test": 20, "data.num_validation": 8})
    kept, _ = image_data.load(config)
    train = load_digits("train").images
    np.testing.assert_array_equal(kept.train.images, train[:22])
    np.testing.assert_array_equal(kept.monitored.images, train[22:30])
    assert kept.evaluated is kept.monitored
    assert kept.about == ("train 30 of 1,440 (8 held out), 8x8x1, 10 classes",)
    config.eval.use_test_split = True
    kept, _ = image_data.load(config)
    np.testing.assert_array_equal(kept.train.images, train[:22])
    np.testing.assert_array_equal(kept.monitored.images, train[22:30])
    np.testing.assert_array_equal(kept.evaluated.images, load_digits("test").images[:20])
    config.data.num_validation = 30
    with pytest.raises(ConfigError, match=r"num_validation must leave .* it is 30 of 30"):
        image_data.load(config)


def test_a_data_set_without_a_test_split_is_judged_by_what_is_held_out(tmp_path):
    message = r"split test: .*--config\.data\.num_validation=N.*--config\.data\.test_split=NAME"
    with pytest.raises(ConfigError, match=message):
        image_data.load(own(tmp_path))
    config = own(tmp_path, **{"data.num_validation": 4})
    assert len(image_data.load(config)[0].monitored.labels) == 4
    config.eval.use_test_split = True
    with pytest.raises(ConfigError, match=message):
        image_data.load(config)


def test_the_split_of_the_test_images_has_any_name(tmp_path):
    more = {"valid_images": IMAGES[:7], "valid_labels": LABELS[:7]}
    config = own(tmp_path, arrays=more, **{"data.test_split": "valid"})
    images, _ = image_data.load(config)
    assert len(images.monitored.labels) == 7
    assert images.about[1] == "valid 7 of 7, 8x8x3, 3 classes"


@pytest.mark.parametrize("num_classes", [None, 3, 0])
def test_the_data_decide_what_the_configuration_leaves_open(num_classes, tmp_path):
    config = own(tmp_path, "image", **{"data.num_validation": 10, "data.num_classes": num_classes})
    _, found = image_data.load(config)
    assert (found.data.image_size, found.data.max_train) == (8, 120)
    assert found.data.num_classes == (3 if num_classes is None else num_classes)
    assert (config.data.image_size, config.data.num_classes) == (None, num_classes)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_builds_a_run_of_own_images(family, tmp_path):
    config = own(tmp_path, family, **{"data.num_validation": 24})
    experiment = families.build(config, tmp_path / "run")
    about, judge = experiment.about_data
    assert about == "train 120 of 120 (24 held out), 8x8x3, 3 classes"
    assert judge.startswith("FID compares features of a random network")


def refused(tmp_path, expected, family="joint", arrays=None, **changes):
    with pytest.raises((ConfigError, FileNotFoundError), match=expected) as caught:
        families.build(own(tmp_path, family, arrays, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    return str(caught.value)


def test_mistakes_of_own_images_name_the_fields(tmp_path):
    refuse = partial(refused, tmp_path)
    held_out = {"data.num_validation": 10}
    message = refuse("path does not exist", **{"data.path": str(tmp_path / "nothing.npz")})
    assert message.endswith("--config.data.name= and --config.data.path=.")
    assert "path must name an .npz file" in refuse("npz", **{"data.path": ""})
    for name in ("mine.npz", str(tmp_path)):
        refuse(r"name must say what kind of source .* Give that as path", **{"data.name": name})
    refuse(r"got 0 to 600", arrays={"images": IMAGES * 600.0 / IMAGES.max()}, **held_out)
    refuse("labels must lie in 0..1; 40 of 120 do not", **{"data.num_classes": 2}, **held_out)
    gaps = {"images": IMAGES, "labels": 2 * LABELS}
    refuse(r"every class must have images, but classes \[1, 3\] of 5", arrays=gaps, **held_out)
    one = {"images": IMAGES[:1], "labels": LABELS[:1]}
    refuse("num_validation must leave training images: it is 10 of 1", arrays=one, **held_out)
    one |= {"test_images": IMAGES[:1], "test_labels": LABELS[:1]}
    refuse("must be at most the number of training examples, got 16 with 1", arrays=one)


@pytest.mark.parametrize("family", FAMILIES)
def test_images_without_labels_are_for_energies_and_latent_models(family, tmp_path):
    np.savez(tmp_path / "plain.npz", images=IMAGES)
    config = own(tmp_path, family, **{"data.num_validation": 24})
    config.data.path = str(tmp_path / "plain.npz")
    if family == "joint":
        with pytest.raises(ConfigError, match="the images have no labels: add them"):
            families.build(config, tmp_path / "run")
        return
    about = families.build(config, tmp_path / "run").about_data
    read, judge = about
    assert read == "train 120 of 120 (24 held out), 8x8x3, no classes"
    assert judge.startswith("FID compares features of a random network")


def test_test_images_have_the_form_and_the_classes_of_the_training_images(tmp_path):
    refuse = partial(refused, tmp_path)
    refuse(
        r"must have the shape of the training images, \(8, 8, 3\), got \(8, 8, 1\)",
        arrays={"test_images": IMAGES[..., :1], "test_labels": LABELS},
    )
    refuse("must have labels, because the training images have", arrays={"test_images": IMAGES})


@pytest.mark.parametrize("family", FAMILIES)
def test_labels_without_a_class_are_refused_in_every_family(family, monkeypatch, tmp_path):
    def load(name, split, **_):
        found = load_digits(split)
        return data.LoadedImages(data.ImageData(found.images, found.labels + 1), 357, 10)

    monkeypatch.setattr(data, "load_images", load)
    config = FAMILIES[family].get_config("smoke")
    config.data.name = "svhn_cropped"
    message = r"name='svhn_cropped', split train: labels must lie in 0\.\.9; .* Subtract 1 from all"
    with pytest.raises(ConfigError, match=message) as caught:
        families.build(config, tmp_path)
    assert "config.data.num_classes=10" in str(caught.value)


@pytest.mark.parametrize(("data_dir", "passed_on"), [("", None), ("/data", "/data")])
def test_other_images_come_from_tfds(data_dir, passed_on, monkeypatch):
    asked = []

    def load(name, split, **options):
        asked.append((name, split, options))
        found = load_digits(split)
        return data.ImageData(*(array[: options["max_examples"]] for array in found)), 357, 10

    monkeypatch.setattr("ebmjax.data._load.read_tfds", load)
    config = digits(**{"data.name": "svhn_cropped", "data.path": data_dir})
    config.data.update(image_size=16, max_train=30, max_test=20)
    images, _ = image_data.load(config)
    common = {"data_dir": passed_on, "image_size": 16, "on_disk": False}
    assert asked == [
        ("svhn_cropped", "train", {**common, "max_examples": 30}),
        ("svhn_cropped", "test", {**common, "max_examples": 20}),
    ]
    assert (len(images.train.images), len(images.monitored.images)) == (30, 20)
