"""The nearest-neighbour entropy against its exact expectation, from order statistics."""

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


def numpy_estimate(particles):
    """The textbook formula in float64, one particle at a time."""
    points = np.asarray(particles, np.float64).reshape(len(particles), -1)
    n, d = points.shape
    distances = [
        min(np.linalg.norm(points[i] - points[j]) for j in range(n) if j != i) for i in range(n)
    ]
    ball = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1)
    return digamma(n) - digamma(1) + ball + d * np.mean(np.log(distances))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (6, 3), (7, 2, 2, 3), (2, 4)])
def test_is_the_textbook_formula(shape):
    particles = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    d = int(np.prod(shape[1:]))
    # d log r, with r to a few eps; of terms of size up to d + log n.
    np.testing.assert_allclose(
        entropy(particles), numpy_estimate(particles), rtol=8 * EPS, atol=16 * EPS * (d + 4)
    )


@pytest.mark.parametrize(("n", "d"), [(10, 2), (60, 3)])
def test_gaussian(n, d):
    """N(0, I): given |x|^2 ~ chi2_d, P(r > t) = (1 - F(t^2))^(n-1), F noncentral chi2: exact."""
    centre = chi2.ppf((np.arange(400) + 0.5) / 400, d)
    log_t = np.linspace(-12, 3, 1501)
    survival = (1 - ncx2.cdf(np.exp(2 * log_t), d, centre[:, None])) ** (n - 1)
    mean_log_r = log_t[0] + np.mean(np.trapezoid(survival, log_t, axis=1))
    ball = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1)
    want = digamma(n) - digamma(1) + ball + d * mean_log_r
    true_entropy = 0.5 * d * np.log(2 * np.pi * np.e)
    # The finite-n expectation must itself be near the entropy: neither is a copy of the code.
    assert abs(want - true_entropy) < d / n ** (1 / d)

    clouds = jax.random.normal(jax.random.key(1), (4000, n, d))
    got, error = mean_and_error(clouds)
    # Quadrature: midpoints in chi2, whose top 1/800 of mass is off by log|x| < 2: 0.0025 d.
    assert abs(got - want) < error + 0.0025 * d


def test_scale_shift_rotation_and_order():
    particles = np.random.default_rng(2).normal(size=(9, 2)).astype(np.float32)
    base = entropy(particles)
    atol = 32 * EPS * 4
    np.testing.assert_allclose(entropy(8 * particles) - base, 2 * np.log(8), atol=atol)
    np.testing.assert_allclose(entropy(-particles[::-1, ::-1]), base, atol=atol)
    # Shifted by 4 the coordinates are rounded to 4 eps, against distances of at least `closest`.
    gaps = np.linalg.norm(particles[:, None] - particles[None], axis=-1)
    closest = gaps[gaps > 0].min()
    np.testing.assert_allclose(entropy(particles + 4), base, atol=atol + 16 * EPS / closest)


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
