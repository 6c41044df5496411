"""The nearest-neighbour entropy, of particles alone and among references."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import chi2, ncx2

from ebmjax.losses import nearest_neighbour_entropy

EPS = np.finfo(np.float32).eps
entropy = jax.jit(nearest_neighbour_entropy)


def mean_and_error(clouds):
    """Mean of the estimate over independent clouds, and five of its standard errors."""
    estimates = np.asarray(jax.jit(jax.vmap(nearest_neighbour_entropy))(clouds), np.float64)
    return estimates.mean(), 5 * estimates.std(ddof=1) / np.sqrt(len(estimates))


def by_brute_force(particles, references=None):
    """The textbook formula in float64."""
    a = np.float64(particles).reshape(len(particles), -1)
    b = a if references is None else np.float64(references).reshape(len(references), -1)
    distances = np.linalg.norm(a[:, None] - b[None], axis=-1)
    if references is None:
        np.fill_diagonal(distances, np.inf)
    d, m = a.shape[1], len(b) - (references is None)
    log_ball = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1)
    return digamma(m + 1) - digamma(1) + log_ball + d * np.mean(np.log(distances.min(axis=1)))


def expected_estimate(m, d):
    """Its mean for N(0, I): given |x|^2 ~ chi2_d, P(r > t) = (1 - F(t^2))^m, F noncentral chi2.

    Quadrature: midpoints in chi2, whose top 1/800 of mass is off by log|x| < 2: 0.0025 d.
    """
    centre = chi2.ppf((np.arange(400) + 0.5) / 400, d)
    log_t = np.linspace(-12, 3, 1501)
    survival = (1 - ncx2.cdf(np.exp(2 * log_t), d, centre[:, None])) ** m
    mean_log_r = log_t[0] + np.mean(np.trapezoid(survival, log_t, axis=1))
    log_ball = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1)
    found = digamma(m + 1) - digamma(1) + log_ball + d * mean_log_r
    # Neither is a copy of the code: the expectation must be near the entropy.
    assert abs(found - 0.5 * d * np.log(2 * np.pi * np.e)) < d / m ** (1 / d)
    return found


@pytest.mark.parametrize("shape", [(5,), (5, 1), (6, 3), (7, 2, 2, 3), (2, 4)])
def test_is_the_textbook_formula(shape):
    particles = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    d = int(np.prod(shape[1:]))
    # d log r, with r to a few eps; of terms of size up to d + log n.
    np.testing.assert_allclose(
        entropy(particles), by_brute_force(particles), rtol=8 * EPS, atol=16 * EPS * (d + 4)
    )


@pytest.mark.parametrize(("n", "d"), [(10, 2), (60, 3)])
def test_gaussian(n, d):
    clouds = jax.random.normal(jax.random.key(1), (4000, n, d))
    got, error = mean_and_error(clouds)
    assert abs(got - expected_estimate(n - 1, d)) < error + 0.0025 * d


@pytest.mark.parametrize("value", [0.0, 1.0, -300.0])
def test_coincident_particles(value):
    """All alike: finite, every distance counts as eps times the largest coordinate."""
    particles = np.full((4, 3), value, np.float32)
    floor = EPS * max(abs(value), np.finfo(np.float32).tiny)
    want = digamma(4) - digamma(1) + np.log(4 / 3 * np.pi) + 3 * np.log(floor)
    np.testing.assert_allclose(entropy(particles), want, rtol=8 * EPS)
    gradient = jax.grad(nearest_neighbour_entropy)(jnp.asarray(particles))
    np.testing.assert_array_equal(gradient, np.zeros((4, 3)))


def test_gradient_pushes_neighbours_apart():
    """Three on a line at 0, 1, 3: the estimate is 2 log 1 + log 2 over 3, plus constants."""
    particles = jnp.array([0.0, 1.0, 3.0])
    # d/dx of [2 log(x1 - x0) + log(x2 - x1)] / 3.
    want = np.array([-2.0, 2.0 - 0.5, 0.5]) / 3
    np.testing.assert_allclose(
        jax.jit(jax.grad(nearest_neighbour_entropy))(particles), want, rtol=16 * EPS
    )


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("n", "m", "event"), [(1, 1, ()), (5, 3, (2,)), (3, 40, (4, 4, 1))])
def test_among_references_it_is_the_formula_too(n, m, event):
    particles, references = (np.float32(RNG.normal(size=(num, *event))) for num in (n, m))
    want = by_brute_force(particles, references)
    d = int(np.prod(event))
    # Distances here are above 0.01, and float32 knows coordinates to eps of the largest.
    atol = d * 8 * EPS * 4 / 0.01
    got = entropy(particles, references)
    np.testing.assert_allclose(got, want, rtol=0, atol=atol)


def test_the_gradient_pushes_particles_off_the_nearest_reference_which_stays():
    particles, references = jnp.array([0.0, 2.5]), jnp.array([-0.5, 3.0, 9.0])
    gradient_fn = jax.jit(jax.grad(nearest_neighbour_entropy, argnums=(0, 1)))
    to_particles, to_references = gradient_fn(particles, references)
    # d/dx of [log(x0 + 0.5) + log(3 - x1)] / 2.
    np.testing.assert_allclose(to_particles, [1.0, -1.0], rtol=16 * EPS)
    np.testing.assert_array_equal(to_references, np.zeros(3))


def test_the_nearest_is_found_far_from_the_origin():
    """Squares of coordinates are 1e6 here, and those of the distances some 1e-3."""
    grid = np.round(RNG.normal(size=(450, 2)) * 1024) / 1024 + 1000.0  # exact in float32
    particles, references = grid[:50], grid[50:]
    nearest = np.linalg.norm(particles[:, None] - references[None], axis=-1).min(axis=1)
    assert nearest.min() > 0
    # Coordinates over the largest are rounded to eps / 2: each difference is off by eps 1000.
    atol = 2 * np.mean(np.log1p(4 * EPS * 1000 / nearest)) + 16 * EPS * 10
    got = nearest_neighbour_entropy(jnp.float32(particles), jnp.float32(references))
    np.testing.assert_allclose(got, by_brute_force(particles, references), rtol=0, atol=atol)
