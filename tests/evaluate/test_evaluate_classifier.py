"""Accuracy, calibration and detection of a linear classifier, whose answers are known."""

import numpy as np
import pytest
from jax.tree_util import Partial

from ebmjax import data, evaluate, metrics
from ebmjax.evaluate._out_of_distribution import out_of_distribution

WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], np.float32)  # (pixels, classes)
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 1, 1), np.uint8)
FLAT = IMAGES.reshape(5, 3) / 127.5 - 1.0
LOGITS = FLAT @ WEIGHTS
LABELS = np.array([0, 1, 1, 0, 1], np.int32)
TEST = data.ImageData(IMAGES, LABELS)
EPS = float(np.finfo(np.float32).eps)


def linear(weights, images):
    return images.reshape(len(images), 3) @ weights


LINEAR = Partial(linear, WEIGHTS)


def probabilities():
    odds = np.exp(LOGITS)
    return odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("batch_size", [2, 256])
def test_the_numbers_are_their_definitions(batch_size):
    found = evaluate.classifier(LINEAR, TEST, batch_size=batch_size, num_bins=4)
    numbers, chosen = found["classification"], probabilities()[np.arange(5), LABELS]
    np.testing.assert_allclose(found["logits"], LOGITS, rtol=0, atol=40 * EPS)
    assert numbers["num_images"] == 5
    assert numbers["accuracy"] == pytest.approx(np.mean(LOGITS.argmax(1) == LABELS))
    assert numbers["nll"] == pytest.approx(-np.log(chosen).mean(), rel=100 * EPS)
    brier = np.sum((probabilities() - np.eye(2)[LABELS]) ** 2, axis=1)
    assert numbers["brier"] == pytest.approx(brier.mean(), rel=100 * EPS)
    assert sum(numbers["reliability"]["count"]) == 5
    assert len(numbers["reliability"]["count"]) == 4
    density = np.log(np.exp(LOGITS).sum(axis=1))
    scores = evaluate.scores(LINEAR, IMAGES, batch_size=batch_size)
    np.testing.assert_allclose(scores["log_density"], density, rtol=40 * EPS)
    gradient = probabilities() @ WEIGHTS.T
    norms = scores["negative_score_norm"]
    np.testing.assert_allclose(-norms, np.linalg.norm(gradient, axis=1), rtol=100 * EPS)
    for name in ("accuracy", "ece", "nll", "brier"):  # numbers are means over the images
        values = found["per_image"][f"classification.{name}"]["test"]
        assert values.mean() == pytest.approx(numbers[name], rel=20 * EPS)
    assert "ood" not in found


def test_a_function_of_a_model_in_training_is_read_at_every_call():
    """Its name is bound anew between the calls, as in a loop or a notebook."""

    def logits_fn(images):
        return linear(weights, images)

    for factor in (1.0, 2.0):
        weights = factor * WEIGHTS
        found = evaluate.classifier(logits_fn, TEST)
        np.testing.assert_allclose(found["logits"], factor * LOGITS, rtol=0, atol=100 * EPS)


def test_sets_outside_are_told_from_as_many_test_images():
    others = {
        "black": np.zeros((3, 3, 1, 1), np.uint8),
        "white": np.full((2, 3, 1, 1), 255, np.uint8),
    }
    found = evaluate.classifier(LINEAR, TEST, outside=others)
    ood, density = found["ood"], np.log(np.exp(LOGITS).sum(axis=1))
    assert ood["num_images"] == 3
    for name, level in (("black", -1.0), ("white", 1.0)):
        outside = np.log(np.exp(np.full(3, level) @ WEIGHTS).sum())
        area = ood["sets"][name]["log_density"]["auroc"]
        assert area == pytest.approx(np.mean(density[:3] > outside))
        parts = found["per_image"][f"ood.sets.{name}.log_density.auroc"]
        assert sum(part.mean() for part in parts.values()) == pytest.approx(area, abs=10 * EPS)
        assert {part: len(values) for part, values in parts.items()} == {
            "test": 3,
            name: len(others[name]),
        }
        assert metrics.sampling_error(tuple(parts.values())) >= 0.0
    assert {name: one["num_images"] for name, one in ood["sets"].items()} == {
        "black": 3,
        "white": 2,
    }
    assert ood.keys() == {"sets", "num_images"}, "no mean over sets that differ"


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_an_energy_is_a_score(offset):
    """Six pairs of eight are in order."""
    found = out_of_distribution(
        {"log_density": offset + np.array([1.0, 2.0, 3.0, 4.0])},
        {"other": {"log_density": offset + np.array([0.0, 2.5])}},
    )["sets"]["other"]["log_density"]
    assert found["auroc"] == pytest.approx(0.75)


def test_the_sets_are_the_same_for_every_model():
    images = data.load_digits("test").images[:6]
    sets = evaluate.ood_sets(images)
    assert list(sets) == ["natural_patches", "interp", "noise", "constant"]
    assert {found.shape for found in sets.values()} == {images.shape}
    # Of photographs made smaller, so that patches of 8 pixels show what 32 do.
    patches = data.natural_patches(6, size=8, channels=1, seed=0, downscale=4)
    np.testing.assert_array_equal(sets["natural_patches"], patches)


@pytest.mark.parametrize(
    ("logits_fn", "area"),
    # An infinite log density has a place among others, and ties with itself.
    [(lambda x: linear(WEIGHTS, x) / 0.0, 0.5), (Partial(linear, WEIGHTS * np.nan), np.nan)],
    ids=["infinite", "NaN"],
)
def test_logits_that_are_not_finite_have_no_numbers(logits_fn, area):
    found = evaluate.classifier(logits_fn, TEST, outside={"same": IMAGES})
    numbers = found["classification"]
    assert np.isnan([numbers[name] for name in ("accuracy", "ece", "nll", "brier")]).all()
    detected = found["ood"]["sets"]["same"]
    assert np.isnan(list(detected["max_probability"].values())).all()
    assert detected["log_density"]["auroc"] == pytest.approx(area, nan_ok=True)
    assert not [name for name in found["per_image"] if name.startswith("classification")]
    for part in found["per_image"]["ood.sets.same.max_probability.auroc"].values():
        assert np.isnan(part).all()


@pytest.mark.parametrize(
    ("logits_fn", "labels", "message"),
    [
        (LINEAR, None, r"test\.labels must be a class for each image, got None"),
        (LINEAR, LABELS + 1, r"test\.labels must lie in 0\.\.1"),
        (lambda x: x.sum((1, 2, 3)), LABELS, r"logits_fn must map one image, \(1, H, W, C\)"),
        (lambda x: (linear(WEIGHTS, x), {}), LABELS, "logits_fn must map one image"),
    ],
)
def test_what_cannot_be_judged_is_refused(logits_fn, labels, message):
    with pytest.raises(ValueError, match=message):
        evaluate.classifier(logits_fn, data.ImageData(IMAGES, labels))
    with pytest.raises(ValueError, match="images must be finite"):
        evaluate.scores(LINEAR, np.full((1, 3, 1, 1), np.nan, np.float32))
