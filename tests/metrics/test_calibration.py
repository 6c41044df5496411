"""Calibration and proper scores against scikit-learn, scipy, loops over bins and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.calibration import calibration_curve

from ebmjax.metrics import (
    accuracy,
    brier_score,
    calibration_gaps,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_bins,
    sampling_error,
)

EPS = np.finfo(np.float32).eps
NUM_EXAMPLES = 400
# A sum of n numbers in [0, 1], one after the other, is off by at most n eps relatively.
TOLERANCE = NUM_EXAMPLES * EPS
both = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])


@pytest.fixture
def logits_and_labels():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (NUM_EXAMPLES, 5)).astype(np.float32)
    labels = np.where(
        rng.uniform(size=NUM_EXAMPLES) < 0.6, logits.argmax(1), rng.integers(5, size=NUM_EXAMPLES)
    )
    return logits, labels


@pytest.fixture
def probabilities_and_labels(logits_and_labels):
    logits, labels = logits_and_labels
    return np.asarray(jax.nn.softmax(logits)), labels


def gaps_by_brute_force(probabilities, labels, num_bins):
    """The definition, bin by bin in float64."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    is_correct = probabilities.argmax(axis=1) == labels
    total = 0.0
    for b in range(num_bins):
        inside = (confidence > b / num_bins) & (confidence <= (b + 1) / num_bins)
        if inside.any():
            total += inside.mean() * abs(is_correct[inside].mean() - confidence[inside].mean())
    return total


@both
def test_calibration_error_is_its_definition(wrap, probabilities_and_labels):
    for num_bins in (20, 7, 1):
        got = wrap(lambda p, y, bins=num_bins: expected_calibration_error(p, y, num_bins=bins))(
            *probabilities_and_labels
        )
        expected = gaps_by_brute_force(*probabilities_and_labels, num_bins)
        assert expected > 0.02  # something to find
        np.testing.assert_allclose(got, expected, atol=TOLERANCE)


@both
def test_bins_are_scikit_learns(wrap, probabilities_and_labels):
    probabilities, labels = probabilities_and_labels
    bins = wrap(reliability_bins)(probabilities, labels)
    full = np.asarray(bins.count) > 0
    assert not full.all()  # five classes: no confidence below 1/5
    true, predicted = calibration_curve(
        probabilities.argmax(1) == labels, probabilities.max(1), n_bins=20
    )
    np.testing.assert_allclose(bins.accuracy[full], true, rtol=TOLERANCE)
    np.testing.assert_allclose(bins.confidence[full], predicted, rtol=TOLERANCE)
    assert int(bins.count.sum()) == NUM_EXAMPLES
    np.testing.assert_array_equal(bins.accuracy[~full], 0.0)
    np.testing.assert_array_equal(bins.confidence[~full], 0.0)
    np.testing.assert_allclose(bins.edges, np.linspace(0, 1, 21), rtol=EPS)


@both
@pytest.mark.parametrize("num_bins", [20, 15, 3])
def test_a_confidence_on_an_edge_belongs_to_the_bin_below(wrap, num_bins):
    upper = np.arange(num_bins // 2 + 1, num_bins)  # 20 bins: 11/20 .. 19/20
    edge = (upper / num_bins).astype(np.float32)
    for confidence, index in [(edge, upper - 1), (np.nextafter(edge, np.float32(1)), upper)]:
        probabilities = np.stack([confidence, 1 - confidence], axis=1)
        bins = wrap(lambda p, y: reliability_bins(p, y, num_bins=num_bins))(
            probabilities, np.zeros(len(upper), int)
        )
        np.testing.assert_array_equal(bins.count, np.bincount(index, minlength=num_bins))
        np.testing.assert_array_equal(bins.confidence[index], confidence)


def test_a_million_examples_lose_no_digits():
    """Numbers added one by one in float32 had lost 1 % here."""
    num = 1_000_000
    probabilities = np.tile(np.float32([0.97, 0.03]), (num, 1))
    labels = (np.arange(num) % 100 >= 97).astype(np.int32)
    assert abs(float(expected_calibration_error(probabilities, labels))) < 10 * EPS


def test_calibration_error_in_closed_form():
    sure = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    assert expected_calibration_error(sure, jnp.array([0, 1])) == 0.0
    assert expected_calibration_error(sure, jnp.array([1, 0])) == 1.0
    # A softmax may round to just above one.
    above = jnp.nextafter(sure, jnp.full_like(sure, 2.0))
    assert reliability_bins(above, jnp.array([0, 1])).count[-1] == 2


@both
def test_likelihood_accuracy_and_brier_are_their_definitions(wrap, logits_and_labels):
    logits, labels = logits_and_labels
    log_p = log_softmax(logits.astype(np.float64), axis=1)
    rows = np.arange(NUM_EXAMPLES)
    np.testing.assert_allclose(
        wrap(negative_log_likelihood)(logits, labels), -log_p[rows, labels].mean(), rtol=TOLERANCE
    )
    np.testing.assert_allclose(
        wrap(accuracy)(logits, labels), np.mean(logits.argmax(1) == labels), rtol=TOLERANCE
    )
    squares = (np.exp(log_p) - np.eye(5)[labels]) ** 2
    np.testing.assert_allclose(
        wrap(brier_score)(jnp.asarray(np.exp(log_p), jnp.float32), labels),
        squares.sum(axis=1).mean(),
        rtol=TOLERANCE,
    )


def test_sure_logits_neither_overflow_nor_have_a_logarithm_of_zero():
    extreme = jnp.array([[1000.0, 0.0], [-1000.0, 0.0]])
    assert negative_log_likelihood(extreme, jnp.array([0, 0])) == 500.0
    assert brier_score(jnp.eye(8)[:3], jnp.array([1, 2, 3])) == 2.0


def test_nan_inside_jit_is_not_swallowed():
    probabilities = jnp.array([[0.5, 0.5], [jnp.nan, 0.5]])
    labels = jnp.array([0, 1])
    for function in (expected_calibration_error, brier_score, negative_log_likelihood, accuracy):
        assert jnp.isnan(jax.jit(function)(probabilities, labels))


def test_logits_may_be_infinite_but_not_nan():
    for function in (accuracy, negative_log_likelihood):
        assert function(jnp.array([[0.0, -jnp.inf]]), jnp.array([0])) in (0.0, 1.0)
        assert np.isnan(function(jnp.array([[0.0, jnp.nan]]), jnp.array([0])))


def test_the_gaps_of_examples_average_to_the_calibration_error():
    """And their standard error is that of a bootstrap over examples, where gaps are clear.

    Each bin is sure by 0.3 too much, six of its errors or more. The deviation of 1,000 bootstrap
    draws is known to 1 / sqrt(2,000); five times that is 11 %.
    """
    rng = np.random.default_rng(4)
    confidence = rng.uniform(0.5, 1.0, NUM_EXAMPLES)
    right = rng.uniform(size=NUM_EXAMPLES) < confidence - 0.3
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    labels = np.where(right, 0, 1)
    gaps = np.asarray(calibration_gaps(probabilities, labels, num_bins=5), float)
    ece = expected_calibration_error(probabilities, labels, num_bins=5)
    np.testing.assert_allclose(gaps.mean(), ece, rtol=0, atol=TOLERANCE)
    index = np.ceil(confidence * 5).astype(int) - 1
    draws = []
    for _ in range(1000):
        chosen = rng.integers(NUM_EXAMPLES, size=NUM_EXAMPLES)
        gap = np.bincount(index[chosen], (right - confidence)[chosen], minlength=5)
        draws.append(np.abs(gap).sum() / NUM_EXAMPLES)
    np.testing.assert_allclose(sampling_error(gaps), np.std(draws), rtol=5 / np.sqrt(2000))
