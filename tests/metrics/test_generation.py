"""FID, inception score, extraction and extrapolation, against closed forms."""

import jax
import numpy as np
import pytest
import scipy.linalg

from ebmjax.metrics import (
    extract_in_batches,
    extrapolate_to_infinity,
    feature_moments,
    frechet_distance,
    inception_score,
)

EPS = np.finfo(np.float64).eps


# ---- Frechet distance ----


def make_features(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def test_frechet_distance_is_the_matrix_square_roots():
    a, b = (feature_moments(make_features(60, 8, seed)) for seed in (0, 1))
    root = scipy.linalg.sqrtm(a.cov @ b.cov)
    want = np.sum((a.mean - b.mean) ** 2) + np.trace(a.cov + b.cov - 2 * np.real(root))
    got = frechet_distance(*a, *b)
    # sqrtm of a matrix that is not symmetric loses the condition number of its square root.
    condition = np.sqrt(np.linalg.cond(a.cov) * np.linalg.cond(b.cov))
    atol = 8 * EPS * condition * np.trace(a.cov + b.cov)
    assert atol < 1e-6 * want
    assert got == pytest.approx(want, rel=8 * EPS, abs=atol)
    assert frechet_distance(*b, *a) == pytest.approx(got, rel=1e-12)


@pytest.mark.parametrize("is_b_singular", [True, False])
def test_frechet_distance_of_singular_covariances(is_b_singular):
    """From a line: the cross term is sqrt(u' S_b u). A square root of rounding would leave 1e-8."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 40))
    cov_b = np.outer(v, v) if is_b_singular else np.diag(v**2)
    got = frechet_distance(np.zeros(40), np.outer(u, u), np.zeros(40), cov_b)
    want = u @ u + v @ v - 2 * np.sqrt(u @ cov_b @ u)
    # Factors of rounded matrices: eps * dimension, of the traces.
    assert got == pytest.approx(want, abs=40 * EPS * (u @ u + v @ v))


@pytest.mark.parametrize("n", [300, 12])
def test_frechet_distance_to_itself_is_zero(n):
    moments = feature_moments(make_features(n, 50))
    assert abs(frechet_distance(*moments, *moments)) < 50 * EPS * np.trace(moments.cov)


def test_moments_are_numpys_with_an_unbiased_covariance():
    features = make_features(30, 4).astype(np.float32)
    moments = feature_moments(features)
    rows = features.astype(np.float64)
    centred = rows - rows.mean(0)
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=30 * EPS)
    np.testing.assert_allclose(moments.cov, centred.T @ centred / 29, rtol=0, atol=1e-13 * 100)
    assert moments.mean.dtype == moments.cov.dtype == np.float64
    assert feature_moments([[1.0], [3.0]]).cov.tolist() == [[2.0]]  # one dimension is a matrix too


# ---- inception score ----


@pytest.mark.parametrize(
    ("table", "want"),
    [
        (np.eye(5), 5.0),
        (np.full((6, 4), 0.25), 1.0),
        (np.repeat([[1.0, 0.0]], 3, axis=0), 1.0),  # sure, but always of the same
        ([[1.0, 0.0], [0.5, 0.5]], (4 / 3) ** 0.75),
    ],
    ids=["sure-and-even", "unsure", "one-class", "by-hand"],
)
def test_inception_score_of_known_tables(table, want):
    assert inception_score(table) == pytest.approx(want, rel=20 * EPS)


def test_inception_score_takes_a_float32_softmax():
    logits = 5 * np.random.default_rng(0).normal(size=(40, 1008)).astype(np.float32)
    p = np.asarray(jax.nn.softmax(logits), np.float64)
    marginal = p.mean(0)
    want = np.exp(np.mean(np.sum(p * np.log(p / marginal), axis=1)))
    assert inception_score(p) == pytest.approx(want, rel=1008 * EPS)
    assert inception_score(jax.nn.softmax(logits)) > 1


# ---- extraction ----


@pytest.mark.parametrize(("n", "batch_size"), [(7, 3), (6, 3), (2, 5), (1, 1)])
def test_extraction_keeps_every_image_and_one_shape(n, batch_size):
    images = np.random.default_rng(0).integers(0, 256, (n, 2, 2, 1), np.uint8)
    shapes = []

    @jax.jit
    def features_fn(batch):
        shapes.append((batch.shape, batch.dtype))  # once a compilation
        rows = batch.reshape(batch.shape[0], -1).astype("float32")
        return {"pixels": rows, "sum": rows.sum(1)}

    got = extract_in_batches(features_fn, images, batch_size)
    assert np.array_equal(got["pixels"], images.reshape(n, -1))
    assert np.array_equal(got["sum"], images.sum((1, 2, 3)))
    assert shapes == [((batch_size, 2, 2, 1), np.uint8)]
    assert all(type(rows) is np.ndarray for rows in got.values())


SIZES = np.array([1000, 1389, 1778, 2167, 2556, 2944, 3333, 3722, 4111, 4500])


def test_extrapolation_finds_the_intercept_of_a_line():
    # A line is recovered up to rounding times the leverage of the origin, here below 2.
    values = 12.5 + 3000 / SIZES
    assert extrapolate_to_infinity(SIZES, values) == pytest.approx(12.5, rel=100 * EPS)
    assert extrapolate_to_infinity([10, 40], [5.0, 2.0]) == pytest.approx(1.0, rel=100 * EPS)
    values += np.random.default_rng(0).normal(size=10)
    # polyfit solves a system whose condition number is near 10.
    intercept = np.polyfit(1 / SIZES, values, 1)[1]
    assert extrapolate_to_infinity(SIZES, values) == pytest.approx(intercept, rel=1e-11)
