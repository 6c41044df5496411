"""Extractors of features: shipped, trained once and kept, and random."""

import jax
import numpy as np
import pytest

from ebmjax import data, evaluate, training
from ebmjax.evaluate import _extractors as extractors
from ebmjax.evaluate._distances import difference
from ebmjax.evaluate._generation import draw_gaussians, score_references, take_balanced

DIGESTS = {
    8: "e05a8eb9b12cf7090d2a21de89ec30497f56049f27744f9e2464467c7226e783",
    16: "c28938f668916bb6c6c3bd6633b39d5a5c7159c2b43e44072b5c54646a9861b3",
}
"""Weights of the digits' extractors by side."""
"""The first and the last feature of a picture, by a fixed random network."""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Trains for two steps on 64 digits and keeps the weights in its own folder."""
    monkeypatch.setattr(extractors, "CACHE", tmp_path / "cache")
    monkeypatch.setitem(extractors.SETTINGS, "max_steps", 2)
    train = data.ImageData(*(array[:64] for array in data.load_digits("train")))
    test = data.ImageData(*(array[:8] for array in data.load_digits("test")))
    return train, test


@pytest.mark.slow
def test_the_classifier_is_kept_and_mended(small, tmp_path, monkeypatch, capfd):
    train, test = small

    def outputs():
        return evaluate.own_classifier(train, test, 10).outputs_fn(test.images)

    first = outputs()
    said = capfd.readouterr()
    assert said.err.startswith("training the classifier whose features FID compares: 2 steps on 64")
    assert said.out == ""
    (path,) = (tmp_path / "cache").iterdir()
    assert path.suffix == ".npz"
    assert first[0].shape == (8, 64)
    with monkeypatch.context() as patch:
        patch.setattr(extractors, "_train", lambda *_: pytest.fail("trained again"))
        # Whatever computes it now: weights that are there are the extractor.
        patch.setattr("importlib.metadata.version", lambda _: "another")
        patch.setattr(jax, "devices", lambda *_: pytest.fail("asked for the device"))
        jax.tree.map(np.testing.assert_array_equal, outputs(), first)
    assert capfd.readouterr().err == ""
    path.write_bytes(path.read_bytes()[:1000])
    with training.tell_phases("nowhere"):
        jax.tree.map(np.testing.assert_array_equal, outputs(), first)
    assert capfd.readouterr().err == ""
    other = data.ImageData(255 - train.images, train.labels)
    assert extractors._digest(other, 10) != extractors._digest(train, 10)
    assert [found.suffix for found in (tmp_path / "cache").iterdir()] == [".npz"]


def test_a_classifier_of_few_classes_is_refused():
    train = data.ImageData(np.zeros((3, 8, 8, 1), np.uint8), np.arange(3) % 2)
    with pytest.raises(ValueError, match=r"at least 5, .* num_classes=4.*random_features"):
        evaluate.own_classifier(train, train, 4)


@pytest.mark.slow
@pytest.mark.parametrize("side", [8, 16])
def test_the_digits_have_an_extractor_that_ships_with_its_accuracy(side):
    """The weights are float16 numbers, and features are the same on all machines up to rounding."""
    judge = evaluate.digits_features(side)
    assert (judge.name, judge.details["side"]) == ("digits_features", side)
    assert judge.details["digest"] == DIGESTS[side]
    test = data.load_images("digits", "test", image_size=side).data
    features, probabilities = judge.outputs_fn(test.images)
    assert features.shape == (357, 64)
    accuracy = np.mean(np.argmax(np.asarray(probabilities), axis=1) == test.labels)
    # One image may change its class by rounding.
    assert judge.details["test_accuracy"] == pytest.approx(accuracy, abs=1.5 / 357)
    assert judge.details["test_accuracy"] > 0.97
    train = data.load_images("digits", "train", image_size=side).data
    distances = evaluate.Distances(train, judge)
    gaussian = score_references(test, distances, 1000)
    assert gaussian["test_images"]["fid"] < gaussian["gaussian"]["fid"]


# ---- features of a random network ----


def patches(num, seed):
    images = data.natural_patches(num, size=16, channels=3, seed=seed)
    return data.ImageData(images, np.zeros(num, np.int32))


SETS = {
    "digits": lambda: (data.load_digits("train"), data.load_digits("test")),
    "patches": lambda: (patches(900, 0), patches(300, 1)),
}


def degraded(images, rng):
    """Mild forms of what a generator may do wrong."""
    blurred = images
    for axis in (1, 1, 2, 2):  # means of three pixels, twice in both directions
        blurred = np.mean([np.roll(blurred, shift, axis) for shift in (-1, 0, 1)], axis=0)
    noisy = images + rng.normal(0, 25, images.shape)
    return {
        "blurred": blurred.round().astype(np.uint8),
        "noisy": noisy.round().clip(0, 255).astype(np.uint8),
        "collapsed": images[rng.integers(0, 10, len(images))],
    }


@pytest.mark.parametrize("name", SETS)
def test_random_features_order_what_is_better_and_worse(name):
    """Real test images before Gaussians of the classes before noise; and before damaged ones."""
    train, test = SETS[name]()
    distances = evaluate.Distances(train, evaluate.random_features())
    real = take_balanced(test, 300)
    rng, num = np.random.default_rng(0), len(real.labels)
    sets = {
        "test": real.images,
        "gaussian": draw_gaussians(train, num).images,
        "noise": rng.integers(0, 256, real.images.shape).astype(np.uint8),
        **degraded(real.images, rng),
    }
    found = {key: distances.scores(images, at=280) for key, images in sets.items()}
    for better, worse in (
        ("test", "gaussian"),
        ("gaussian", "noise"),
        ("test", "blurred"),
        ("test", "noisy"),
        ("test", "collapsed"),
    ):
        are_pairs = worse in ("blurred", "noisy")  # each image beside the same one, damaged
        told = difference(found[better], found[worse], "fid", is_paired=are_pairs)
        assert told["high"] < 0, (better, worse, told)


def test_random_features_are_the_same_everywhere_and_take_any_shape():
    """Their weights come from NumPy's frozen generator."""
    judge = evaluate.random_features()
    picture = np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3)
    features, _ = judge.outputs_fn(picture)
    np.testing.assert_allclose(
        [features[0, 0], features[0, 63]], [-0.4373409152030945, 1.4640073776245117], rtol=1e-5
    )
    for shape in ((1, 1, 1), (3, 1, 1), (5, 9, 3), (32, 20, 1), (9, 64, 3)):
        features, probabilities = judge.outputs_fn(np.zeros((2, *shape), np.uint8))
        assert features.shape == (2, 64)
        assert np.isfinite(features).all()
        assert probabilities is None
