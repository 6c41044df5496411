"""Separation of two sets of scores against scikit-learn; the scores of images in closed form."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.metrics import roc_auc_score

from ebmjax.metrics import auroc, auroc_parts, ood_scores

EPS = np.finfo(np.float32).eps
both = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])


def make_scores(kind):
    rng = np.random.default_rng(1)
    if kind == "continuous":
        return rng.normal(1, 1, 300), rng.normal(0, 1, 170)
    if kind == "many ties":
        return rng.integers(1, 7, 300).astype(float), rng.integers(0, 5, 170).astype(float)
    if kind == "misled, far from zero":
        return rng.normal(-1e3, 5, 40), rng.normal(-990, 1, 250)
    if kind == "all equal":
        return np.ones(3), np.ones(5)
    assert kind == "one each"
    return np.array([2.0]), np.array([1.0])


KINDS = ["continuous", "many ties", "misled, far from zero", "all equal", "one each"]


def sklearn_input(in_scores, out_scores):
    truth = np.r_[np.ones(len(in_scores)), np.zeros(len(out_scores))]
    return truth, np.r_[in_scores, out_scores]


@pytest.mark.parametrize("kind", KINDS)
def test_areas_are_scikit_learns(kind):
    scores = make_scores(kind)
    truth, values = sklearn_input(*scores)
    assert auroc(*scores) == pytest.approx(roc_auc_score(truth, values))


def test_float64_scores_are_not_rounded_to_ties():
    """In float32, 1 + 1e-9 is 1, and every pair would tie."""
    low, high = 1 + 1e-9 * np.arange(4.0), 1 + 1e-9 * np.arange(4.0, 8.0)
    assert auroc(high, low) == 1
    assert auroc(low[:3], np.append(low, np.inf)) == pytest.approx(4.5 / 15)


def test_infinite_scores_are_ordered():
    lowest = jnp.array([-jnp.inf, 0.0])
    assert auroc(jnp.array([jnp.inf, 0.0]), lowest) == 0.875


def linear_logits(images):
    weights = np.random.default_rng(2).normal(size=(3, 2, 1, 4)).astype(np.float32)
    return jnp.tensordot(images, weights, axes=3) + jnp.array([[0.5, -1.0, 0.0, 2.0]])


def numpy_linear_scores(images):
    weights = np.random.default_rng(2).normal(size=(3, 2, 1, 4)).reshape(6, 4)
    logits = images.reshape(-1, 6).astype(np.float64) @ weights + [0.5, -1.0, 0.0, 2.0]
    probabilities = softmax(logits, axis=1)
    return {
        "log_density": logsumexp(logits, axis=1),
        "max_probability": probabilities.max(axis=1),
        "negative_score_norm": -np.linalg.norm(probabilities @ weights.T, axis=1),
    }


@both
def test_scores_of_a_linear_classifier(wrap):
    images = np.random.default_rng(3).normal(size=(9, 3, 2, 1)).astype(np.float32)
    got = wrap(lambda x: ood_scores(linear_logits, x))(images)
    expected = numpy_linear_scores(images)
    assert got.keys() == expected.keys()
    # Logits are sums of 7 terms whose magnitudes add up to less than 20, so they are off by less
    # than 7 * 20 eps; the softmax and a gradient of length about 1 follow within a small factor.
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, atol=4 * 7 * 20 * EPS, err_msg=name)


def test_the_score_of_an_image_is_its_own():
    """Closed form of a curved log density: f = -|x|^2 / 2 in both classes has the score -x."""
    images = jax.random.normal(jax.random.key(0), (5, 2, 2, 3))

    def logits_fn(x):
        return jnp.repeat(-0.5 * jnp.sum(x**2, axis=(1, 2, 3))[:, None], 2, axis=1)

    scores = jax.jit(partial(ood_scores, logits_fn))(images)
    norms = np.linalg.norm(np.asarray(images).reshape(5, 12), axis=1)
    np.testing.assert_allclose(scores["negative_score_norm"], -norms, rtol=16 * EPS)
    np.testing.assert_allclose(
        scores["log_density"], np.log(2) - 0.5 * norms**2, atol=16 * EPS * norms.max() ** 2
    )
    np.testing.assert_allclose(scores["max_probability"], 0.5, rtol=16 * EPS * norms.max() ** 2)
    alone = ood_scores(logits_fn, images[3:4])
    for name, values in scores.items():
        np.testing.assert_allclose(alone[name][0], values[3], rtol=16 * EPS, err_msg=name)


def test_large_logits_keep_the_digits_of_the_probability():
    """Every number is exact in float32, so only the softmax of the differences rounds."""
    images = jnp.arange(8.0).reshape(8, 1)
    scores = ood_scores(lambda x: 2.0**16 + jnp.concatenate([0.5 * x, 0.0 * x], axis=1), images)
    expected = 1 / (1 + np.exp(-0.5 * np.arange(8.0)))
    np.testing.assert_allclose(scores["max_probability"], expected, rtol=4 * EPS)


def test_nan_is_not_ranked():
    good = np.array([1.0, 2.0])
    for scores in [(good, np.array([0.0, np.nan])), (np.array([0.0, np.nan]), good)]:
        assert np.isnan(auroc(*scores))
        for part in auroc_parts(*scores):
            assert np.isnan(part).all()
