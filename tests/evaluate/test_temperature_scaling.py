"""Calibration after temperature scaling, from arrays and by the evaluator."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data, evaluate, metrics
from ebmjax.evaluate._classifier import classification
from ebmjax.recipes.evaluators import classification as evaluator


def make_examples(seed, num=60, classes=5):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num, classes)).astype(np.float32)
    return 4 * logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def test_each_half_is_scaled_by_the_temperature_of_the_other():
    logits, labels = make_examples(0)
    found = evaluate.temperature_scaling(logits, labels)
    nll = []
    for ours, others in ((0, 1), (1, 0)):
        t = metrics.fit_temperature(logits[others::2], labels[others::2]).temperature
        nll.append(metrics.negative_log_likelihood(logits[ours::2] / t, labels[ours::2]))
    assert found["nll"] == pytest.approx(np.mean(nll), rel=1e-5)
    whole = metrics.fit_temperature(logits, labels)
    assert (found["temperature"], found["temperature_error"]) == pytest.approx(
        tuple(map(float, whole)), rel=1e-5
    )
    assert found["num_fitted"] == 60


def test_images_held_out_choose_the_temperature():
    (logits, labels), held_out = make_examples(0), make_examples(1, 400)
    found = evaluate.temperature_scaling(logits, labels, held_out)
    t = float(metrics.fit_temperature(*held_out).temperature)
    want = classification((logits / t).astype(np.float32), labels)
    assert found["temperature"] == pytest.approx(t)
    assert t == pytest.approx(4.0, abs=5 * found["temperature_error"])
    for name in ("ece", "nll"):
        assert found[name] == pytest.approx(want[name], abs=1e-6)
    before = classification(logits, labels)
    assert found["nll"] < before["nll"]


def test_logits_that_are_not_finite_have_no_temperature():
    logits, labels = make_examples(0)
    logits[3, 1] = np.nan
    found = evaluate.temperature_scaling(logits, labels)
    assert np.isnan([found[name] for name in ("temperature", "ece", "nll")]).all()


LABELS = np.arange(40) % 4
WITHOUT_TEMPERATURE = {
    "perfect": (5 * np.eye(4, dtype=np.float32)[LABELS], 1e-3),
    "constant": (np.ones((40, 4), np.float32), None),
    "opposite": (-5 * np.eye(4, dtype=np.float32)[LABELS], 1e3),
    "of one class": (np.random.default_rng(0).normal(size=(40, 1)).astype(np.float32), None),
    "of no chance": (np.where(np.eye(4)[LABELS], -np.inf, 0.0).astype(np.float32), 1e3),
}


@pytest.mark.parametrize("kind", WITHOUT_TEMPERATURE)
def test_logits_that_no_temperature_fits_are_told(kind):
    logits, end = WITHOUT_TEMPERATURE[kind]
    labels = LABELS * 0 if logits.shape[1] == 1 else LABELS
    with pytest.warns(UserWarning, match="No temperature fits the logits"):
        found = evaluate.temperature_scaling(logits, labels, (logits, labels))
    assert np.isnan([found[name] for name in ("temperature_error", "ece", "nll")]).all()
    assert end is None or found["temperature"] == pytest.approx(end, rel=1e-3)


def test_a_logit_of_minus_infinity_is_a_class_without_chance():
    logits, labels = make_examples(0)
    logits[np.arange(60), (labels + 1) % 5] = -np.inf
    low = np.where(np.isinf(logits), np.float32(-1e8), logits)
    found, expected = (evaluate.temperature_scaling(one, labels) for one in (logits, low))
    assert np.isfinite(list(found.values())).all()
    assert found == pytest.approx(expected, rel=1e-5)


def logits_fn(images):
    levels = images[:, 0, 0, 0]
    return 5.0 * jnp.stack([-levels, levels], axis=1)


@pytest.mark.slow
def test_the_evaluator_reports_it_where_images_are_held_out():
    rng = np.random.default_rng(0)
    test, held_out = (
        data.ImageData(
            levels[:, None, None, None], (levels > rng.integers(64, 192, 40)).astype(int)
        )
        for levels in rng.integers(0, 256, (2, 40), np.uint8)
    )
    config = SimpleNamespace(evals=SimpleNamespace(batch_size=16))
    model = SimpleNamespace(logits=logits_fn, held_out=None, config=config, is_finished=True)
    key = jax.random.key(0)
    assert "scaled" not in evaluator.classification(key, model, test).report["classification"]
    model.held_out = held_out
    of_test, of_held = (evaluator.classification(key, model, images) for images in (test, held_out))
    logits = {
        name: evaluate.classifier(logits_fn, images)["logits"]
        for name, images in (("test", test), ("held", held_out))
    }
    held = logits["held"], held_out.labels
    want = evaluate.temperature_scaling(logits["test"], test.labels, held)
    np.testing.assert_equal(of_test.report["classification"]["scaled"], want)
    want = evaluate.temperature_scaling(*held)
    np.testing.assert_equal(of_held.report["classification"]["scaled"], want)
