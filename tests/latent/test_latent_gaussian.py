"""Divergences of Gaussians and the Gaussians fitted to samples, against independent oracles."""

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.covariance import oas

from ebmjax.latent import gaussian_kl, gaussian_moments


def random_gaussian(seed, d):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    return rng.standard_normal(d), root @ root.T + 0.5 * np.eye(d)


def textbook_kl(mean_p, cov_p, mean_q, cov_q):
    inverse, offset = np.linalg.inv(cov_q), mean_q - mean_p
    log_dets = np.linalg.slogdet(cov_q)[1] - np.linalg.slogdet(cov_p)[1]
    squares = np.trace(inverse @ cov_p) + offset @ inverse @ offset
    return 0.5 * (log_dets + squares - len(offset))


@pytest.mark.parametrize("d", [1, 2, 7])
def test_kl_is_the_textbook_one_and_distraxs(d):
    p, q = random_gaussian(0, d), random_gaussian(1, d)
    with jax.enable_x64(True):
        value = gaussian_kl(*map(jnp.asarray, (*p, *q)))
        # Condition numbers here stay below 1e3, values near 10: 1e3 * 2e-16 * 10 = 2e-12.
        np.testing.assert_allclose(value, textbook_kl(*p, *q), rtol=0, atol=1e-11)
        laws = [distrax.MultivariateNormalFullCovariance(*map(jnp.asarray, g)) for g in (p, q)]
        np.testing.assert_allclose(value, laws[0].kl_divergence(laws[1]), rtol=0, atol=1e-11)


def test_kl_is_the_integral_that_defines_it():
    """Adaptive quadrature of p log(p / q) in one dimension, which knows no formula."""
    p, q = stats.norm(0.3, 0.7), stats.norm(-0.5, 1.9)
    integral, error = integrate.quad(lambda z: p.pdf(z) * (p.logpdf(z) - q.logpdf(z)), -8, 8)
    with jax.enable_x64(True):
        value = gaussian_kl(
            jnp.array([0.3]), jnp.array([[0.49]]), jnp.array([-0.5]), jnp.array([[3.61]])
        )
    np.testing.assert_allclose(value[()], integral, rtol=0, atol=10 * error + 1e-12)


def test_kl_maps_over_leading_axes_and_jits():
    pairs = [(*random_gaussian(2 * i, 3), *random_gaussian(2 * i + 1, 3)) for i in range(4)]
    with jax.enable_x64(True):
        stacked = [
            jnp.stack(column).reshape(2, 2, *column[0].shape) for column in zip(*pairs, strict=True)
        ]
        values = jax.jit(gaussian_kl)(*stacked)
    expected = [textbook_kl(*pair) for pair in pairs]
    np.testing.assert_allclose(values.reshape(-1), expected, rtol=0, atol=1e-11)


def test_kl_of_close_gaussians_keeps_its_digits_in_float32():
    """Trace minus dimension plus log determinants would leave only rounding, near d * eps = 1e-5.

    For N(0, (1 + u)^2 I) against N(0, I) the divergence is d (u + u^2 / 2 - log(1 + u)), close
    to d u^2. The factor 1 + u is exact in float32 up to eps, an error of eps / u = 1.2e-3 in u
    relative, twice that in the divergence.
    """
    d, u = 100, 1e-4
    zero, eye = jnp.zeros(d), jnp.eye(d)
    value = float(gaussian_kl(zero, (1 + u) ** 2 * eye, zero, eye))
    np.testing.assert_allclose(value, d * (u + u**2 / 2 - np.log1p(u)), rtol=5e-3)
    assert float(gaussian_kl(zero, 3 * eye, zero, 3 * eye)) == 0.0


def test_kl_of_an_indefinite_covariance_is_nan():
    eye = jnp.eye(2)
    assert np.isnan(gaussian_kl(jnp.zeros(2), eye, jnp.zeros(2), -eye))


@pytest.mark.parametrize("shape", [(3, 2), (5, 40, 4)])
def test_full_and_diagonal_moments_are_numpys(shape):
    samples = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for covariance in ("full", "diagonal"):
        means, covariances = gaussian_moments(jnp.asarray(samples), covariance=covariance)
        assert covariances.shape == (*shape[:-2], shape[-1], shape[-1])
        for index in np.ndindex(shape[:-2]):
            expected = np.cov(samples[index].astype(np.float64), rowvar=False)
            if covariance == "diagonal":
                expected = np.diag(np.diag(expected))
            # Sums of at most 40 products of size up to 10, in float32.
            np.testing.assert_allclose(covariances[index], expected, atol=40 * 10 * 1.2e-7)
            np.testing.assert_allclose(means[index], samples[index].mean(0), atol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(2, 5), (10, 5), (200, 5), (3, 1)])
def test_shrunk_covariance_is_scikit_learns_up_to_its_divisor(n, d):
    """scikit-learn divides by n, ours is unbiased; the shrinkage itself ignores the scale."""
    samples = np.random.default_rng(1).standard_normal((n, d)) @ np.diag(1.0 + np.arange(d))
    with jax.enable_x64(True):
        mean, covariance = gaussian_moments(jnp.asarray(samples), covariance="shrunk")
    np.testing.assert_allclose(mean, samples.mean(0), atol=1e-12)
    np.testing.assert_allclose(covariance, oas(samples)[0] * n / (n - 1), rtol=1e-10, atol=1e-12)
    assert np.all(np.linalg.eigvalsh(covariance) > 0)


def test_shrunk_covariance_allows_a_divergence_with_fewer_samples_than_dimensions():
    samples = np.random.default_rng(2).standard_normal((2, 4, 16)).astype(np.float32)
    mean, covariance = gaussian_moments(jnp.asarray(samples), covariance="shrunk")
    value = float(gaussian_kl(mean[0], covariance[0], mean[1], covariance[1]))
    assert np.isfinite(value)
    assert value > 0


def test_shrunk_covariances_are_fitted_one_by_one():
    samples = jnp.asarray(np.random.default_rng(3).standard_normal((2, 3, 6, 4)), jnp.float32)
    _, together = gaussian_moments(samples, covariance="shrunk")
    for index in np.ndindex(2, 3):
        _, alone = gaussian_moments(samples[index], covariance="shrunk")
        np.testing.assert_allclose(together[index], alone, rtol=1e-5, atol=1e-6)


def test_full_covariance_with_too_few_samples_names_the_way_out():
    for n in (2, 5):
        with pytest.raises(ValueError, match=f"{n} samples in 5 dimensions.*'diagonal'.*'shrunk'"):
            gaussian_moments(jnp.zeros((n, 5)))
    gaussian_moments(jnp.zeros((6, 5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_moments(jnp.zeros((9, 2)), covariance="low"), "one of.*'low'"),
        (lambda: gaussian_moments(jnp.zeros(9)), r"shape \(..., n, d\).*\(9,\)"),
        (lambda: gaussian_moments(jnp.zeros((1, 2)), covariance="shrunk"), "two draws"),
        (lambda: gaussian_kl(jnp.zeros(2), jnp.eye(2), jnp.zeros(3), jnp.eye(3)), r"mean_q \(3,\)"),
        (
            lambda: gaussian_kl(jnp.zeros((4, 2)), jnp.eye(2), jnp.zeros((4, 2)), jnp.eye(2)),
            r"cov_p \(2, 2\)",
        ),
        (lambda: gaussian_kl(*[jnp.zeros(())] * 4), "got mean_p"),
    ],
)
def test_bad_shapes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("variance", [1e-3, 1e-14, 1e-16, 1e-30])
def test_kl_of_a_far_narrower_gaussian(variance):
    """In float32, where a standard deviation minus one has few digits of it left, or none."""

    def kl(variance):
        return gaussian_kl(jnp.zeros(1), variance * jnp.eye(1), jnp.zeros(1), jnp.eye(1))

    value, slope = jax.value_and_grad(kl)(jnp.float32(variance))
    eps = np.finfo(np.float32).eps
    # Three terms of at most the log's size, rounded some four times each.
    expected = 0.5 * (variance - 1 - np.log(variance))
    np.testing.assert_allclose(value, expected, rtol=0, atol=12 * eps * abs(np.log(variance)))
    np.testing.assert_allclose(slope, 0.5 * (1 - 1 / variance), rtol=40 * eps)


def test_shrinkage_ends_at_the_mean_variance():
    """Two draws in two dimensions give the rule's quotient 4 / 3: only mu I is left."""
    samples = jnp.array([[1.0, -2.0], [3.0, 1.0]])  # variances 2 and 4.5
    _, covariance = gaussian_moments(samples, covariance="shrunk")
    np.testing.assert_allclose(covariance, 3.25 * np.eye(2), atol=16 * np.finfo(np.float32).eps)


def test_samples_far_from_zero_keep_their_covariance() -> None:
    """In NumPy's float64, whose differences here are exact."""
    near = np.round(100 * np.random.default_rng(0).normal(size=(50, 3)))
    mean, covariance = gaussian_moments(near + 1e8)
    np.testing.assert_allclose(covariance, np.cov(near, rowvar=False), rtol=1e-4, atol=0.1)
    np.testing.assert_allclose(mean, near.mean(axis=0) + 1e8, rtol=1e-7)
