"""Temperature scaling and further calibration errors against loops and planted cases."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from ebmjax.metrics import (
    adaptive_calibration_error,
    calibration_error_without_bias,
    classwise_calibration_error,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
)


def make_examples(key, num=1000, classes=4):
    """Logits whose softmax is the law of the labels: perfectly calibrated."""
    key_z, key_y = jax.random.split(key)
    logits = 1.5 * jax.random.normal(key_z, (num, classes))
    return logits, jax.random.categorical(key_y, logits)


KEYS = jax.random.split(jax.random.key(4), 400)


@pytest.mark.slow
def test_logits_times_three_have_the_temperature_three():
    def one(key):
        logits, labels = make_examples(key)
        return fit_temperature(3.0 * logits, labels)

    fits = jax.jit(jax.vmap(one))(KEYS)
    off = (np.asarray(fits.temperature) - 3.0) / np.asarray(fits.standard_error)
    assert np.abs(off).max() < 5
    assert abs(off.mean()) < 5 / np.sqrt(len(KEYS))
    assert off.std() == pytest.approx(1.0, abs=5 / np.sqrt(2 * len(KEYS)))


def test_the_temperature_is_that_of_another_minimiser():
    logits, labels = make_examples(KEYS[0], num=50)
    found = minimize_scalar(
        lambda t: float(negative_log_likelihood(0.2 * logits / t, labels)), (0.01, 1.0)
    )
    assert fit_temperature(0.2 * logits, labels).temperature == pytest.approx(found.x, rel=2e-3)


def test_answers_that_are_all_right_have_no_best_temperature():
    fit = fit_temperature(jnp.eye(3), jnp.arange(3))
    assert fit.temperature == pytest.approx(1e-3, rel=1e-4)
    assert np.isnan(fit.standard_error)


def loop(confidence, is_right, bins):
    """Weights, mean gaps and sample variances of bins of rows, by NumPy."""
    for rows in bins:
        if len(rows):
            gaps = np.asarray(is_right)[rows] - np.asarray(confidence)[rows]
            yield len(rows) / len(confidence), gaps.mean(), gaps.var(ddof=len(rows) > 1) / len(rows)


def make_probabilities(num=103):
    logits, labels = make_examples(KEYS[1], num=num)
    return np.asarray(jax.nn.softmax(logits)), np.asarray(labels)


def test_classwise_error_is_its_loop():
    p, y = make_probabilities()
    errors = []
    for k in range(4):
        bins = [np.flatnonzero((p[:, k] > b / 7) & (p[:, k] <= (b + 1) / 7)) for b in range(7)]
        errors.append(sum(w * abs(gap) for w, gap, _ in loop(p[:, k], y == k, bins)))
    assert classwise_calibration_error(p, y, num_bins=7) == pytest.approx(np.mean(errors), abs=1e-6)


def test_errors_of_equal_bins_are_their_loops():
    p, y = make_probabilities()
    confidence, is_right = p.max(1), p.argmax(1) == y
    order = np.argsort(confidence, kind="stable")
    bins = [order[b * 103 // 10 : (b + 1) * 103 // 10] for b in range(10)]
    found = list(loop(confidence, is_right, bins))
    adaptive, debiased = (
        error(p, y, num_bins=10)
        for error in (adaptive_calibration_error, calibration_error_without_bias)
    )
    assert adaptive == pytest.approx(sum(w * abs(gap) for w, gap, _ in found), abs=1e-6)
    assert debiased == pytest.approx(sum(w * (gap**2 - v) for w, gap, v in found), abs=1e-6)


def mean_and_error(values):
    values = np.asarray(values)
    return values.mean(), values.std() / np.sqrt(len(values))


@pytest.mark.slow
def test_a_perfectly_calibrated_classifier():
    """The debiased error is 0 on average; the plain one is not."""

    def one(key):
        logits, labels = make_examples(key, num=200)
        probabilities = jax.nn.softmax(logits)
        return [
            error(probabilities, labels, num_bins=20)
            for error in (calibration_error_without_bias, expected_calibration_error)
        ]

    debiased, plain = jax.jit(jax.vmap(one))(KEYS)
    mean, error = mean_and_error(debiased)
    assert abs(mean) < 5 * error
    assert error < 5e-4
    assert mean_and_error(plain)[0] > 0.05


@pytest.mark.parametrize("num_bins", [1, 20])
def test_a_planted_error_is_found_without_bias(num_bins):
    def one(key):
        is_right = jax.random.bernoulli(key, 0.7, (100,))
        return calibration_error_without_bias(
            jnp.tile(jnp.array([[0.8, 0.2]]), (100, 1)), 1 - is_right, num_bins=num_bins
        )

    mean, error = mean_and_error(jax.jit(jax.vmap(one))(KEYS))
    assert mean == pytest.approx(0.1**2, abs=5 * error)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (partial(adaptive_calibration_error, num_bins=11), "need 11 examples, got 10"),
        (partial(calibration_error_without_bias, num_bins=6), "need 12 examples, got 10"),
        (partial(classwise_calibration_error, num_bins=0), "num_bins"),
    ],
)
def test_bins_that_would_be_empty_are_refused(function, text):
    with pytest.raises(ValueError, match=text):
        function(jnp.full((10, 2), 0.5), jnp.zeros(10, jnp.int32))
