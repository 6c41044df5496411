"""Divergences of Gaussians, given and fitted to draws, against independent oracles."""

import functools

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import latent
from ebmjax.latent import gaussian_kl
from ebmjax.latent._divergences import adjacent_divergences, gaussian_moments


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
    for is_full in (True, False):
        means, covariances = gaussian_moments(jnp.asarray(samples), is_full)
        assert covariances.shape == (*shape[:-2], shape[-1], shape[-1])
        for index in np.ndindex(shape[:-2]):
            expected = np.cov(samples[index].astype(np.float64), rowvar=False)
            if not is_full:
                expected = np.diag(np.diag(expected))
            # Sums of at most 40 products of size up to 10, in float32.
            np.testing.assert_allclose(covariances[index], expected, atol=40 * 10 * 1.2e-7)
            np.testing.assert_allclose(means[index], samples[index].mean(0), atol=1e-5)


def test_gaussians_of_two_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"mean_q \(3,\)"):
        gaussian_kl(jnp.zeros(2), jnp.eye(2), jnp.zeros(3), jnp.eye(3))


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


def test_samples_far_from_zero_keep_their_covariance() -> None:
    """In NumPy's float64, whose differences here are exact."""
    near = np.round(100 * np.random.default_rng(0).normal(size=(50, 3)))
    mean, covariance = gaussian_moments(near + 1e8)
    np.testing.assert_allclose(covariance, np.cov(near, rowvar=False), rtol=1e-4, atol=0.1)
    np.testing.assert_allclose(mean, near.mean(axis=0) + 1e8, rtol=1e-7)


REPEATS = 4000


def ladder(d, is_diagonal):
    """Three Gaussians, each half as wide as the one before, and none round."""
    rng = np.random.default_rng(d)
    roots = np.tril(rng.normal(size=(3, d, d))) + 2.0 * np.eye(d)
    if is_diagonal:
        roots = roots * np.eye(d)
    return rng.normal(size=(3, d)), roots * np.array([1.0, 0.5, 0.25])[:, None, None]


def draws(mean, root, n, num_repeats):
    """Shape (rungs, repeats, n, d)."""
    rungs, d = mean.shape
    noise = np.random.default_rng(1).normal(size=(rungs, num_repeats, n, d))
    return jnp.asarray(mean[:, None, None] + np.einsum("rij,rknj->rkni", root, noise))


@functools.partial(jax.jit, static_argnames="covariance")
def both_divergences(samples, covariance):
    """Returns the divergences with and without the correction for fitted moments."""
    moments = gaussian_moments(samples, covariance == "full")
    fitted = latent.fitted_divergences(samples, covariance=covariance)
    return fitted, adjacent_divergences(*moments)


def errors_in_deviations(values, exact):
    """Errors of the means over the repeats, the second axis, in standard errors."""
    values, exact = np.asarray(values), np.asarray(exact)
    return (values.mean(1) - exact) / (values.std(1, ddof=1) / np.sqrt(values.shape[1]))


@pytest.mark.parametrize(
    ("covariance", "d", "n"), [("full", 1, 9), ("full", 3, 12), ("full", 8, 40), ("diagonal", 4, 9)]
)
def test_fitted_divergences_are_unbiased(covariance, d, n):
    """Within 5 standard errors of 4,000 repeats, where the plug-in ones are 10 and more away."""
    mean, root = ladder(d, covariance == "diagonal")
    with jax.enable_x64(True):
        exact = adjacent_divergences(
            jnp.asarray(mean), jnp.asarray(root @ np.swapaxes(root, -1, -2))
        )
        samples = draws(mean, root, n, REPEATS)
        fitted, plugged = both_divergences(samples, covariance)
    for value, biased, truth in zip(fitted, plugged, exact, strict=True):
        assert np.all(np.abs(errors_in_deviations(value, truth)) < 5.0)
        assert np.all(errors_in_deviations(biased, truth) > 10.0)


@pytest.mark.parametrize(
    ("shape", "covariance", "message"),
    [
        ((2, 7, 5), "full", r"at least 8 draws each in 5 dimensions.*got \(2, 7, 5\)"),
        ((2, 3, 5), "diagonal", "at least 4 draws"),
        ((1, 9, 2), "full", "at least two rungs"),
        ((2, 9, 2), "round", "one of.*'round'"),
        ((9, 2), "full", "at least two rungs"),
    ],
)
def test_too_few_draws_are_refused(shape, covariance, message):
    with pytest.raises(ValueError, match=message):
        latent.fitted_divergences(jnp.zeros(shape), covariance=covariance)


DRAWS = np.random.default_rng(0).normal(size=(3, 2, 12, 4)).astype(np.float32)


def test_draws_that_diverged_or_coincide_have_no_divergences():
    draws = jnp.asarray(DRAWS).at[1, 1, 3].set(jnp.nan)
    for found in latent.fitted_divergences(draws):
        assert np.isnan(found).tolist() == [[False, True], [False, True]]
    coincident = jnp.asarray(DRAWS).at[1, 1].set(DRAWS[1, 1, 0])
    for found in jax.jit(latent.fitted_divergences)(coincident):
        assert not np.isfinite(found[:, 1]).any()


def test_adjacent_divergences_are_those_of_the_pairs():
    generator = np.random.default_rng(7)
    mean = jnp.asarray(generator.normal(size=(4, 3, 2)), jnp.float32)
    roots = jnp.asarray(generator.normal(size=(4, 3, 2, 5)), jnp.float32)
    covariance = roots @ jnp.swapaxes(roots, -1, -2)
    forward, backward = adjacent_divergences(mean, covariance)
    assert forward.shape == backward.shape == (3, 3)
    # The same arithmetic on the same factors, batched differently: a few roundings apart.
    for i in range(3):
        here, there = (mean[i], covariance[i]), (mean[i + 1], covariance[i + 1])
        np.testing.assert_allclose(forward[i], gaussian_kl(*here, *there), rtol=1e-5)
        np.testing.assert_allclose(backward[i], gaussian_kl(*there, *here), rtol=1e-5)


def test_many_divergences_at_once_come_back():
    """Two batched factorisations at once have blocked each other for ever on two CPU threads."""
    samples = jax.random.normal(jax.random.key(0), (11, 32, 64, 16))
    divergences = jax.jit(latent.fitted_divergences)
    for _ in range(20):
        forward, backward = jax.block_until_ready(divergences(samples))
    assert jnp.all(jnp.isfinite(forward))
    assert jnp.all(jnp.isfinite(backward))
