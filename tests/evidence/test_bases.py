"""Bases of log Z, their coordinates and boxes, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ebmjax import evidence
from ebmjax.samplers import fit_factor_gaussian

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(300, 4)) @ RNG.normal(size=(4, 4)) + RNG.normal(size=4)
LABELS = (POINTS[:, 0] > np.quantile(POINTS[:, 0], 0.3)).astype(int)


@pytest.mark.parametrize("labels", [None, LABELS])
def test_a_fitted_gaussian_is_normalised(labels):
    """scipy's density of the same moments, mixed in the shares of the labels."""
    base = evidence.gaussian_base(POINTS, labels, jitter=0.01)
    groups = [POINTS] if labels is None else [POINTS[labels == label] for label in (0, 1)]
    densities = [
        scipy.stats.multivariate_normal(g.mean(0), np.cov(g.T, bias=True) + 0.01 * np.eye(4))
        for g in groups
    ]
    shares = [len(g) / len(POINTS) for g in groups]
    expected = np.log(shares @ np.stack([d.pdf(POINTS[:20]) for d in densities]))
    found = jax.vmap(base.log_density_fn)(jnp.asarray(POINTS[:20], jnp.float32))
    np.testing.assert_allclose(found, expected, atol=2e-3)
    draws = jax.vmap(base.draw)(jax.random.split(jax.random.key(0), 4000))
    errors = 5 * np.sqrt(np.var(POINTS, axis=0) + 0.01) / np.sqrt(4000)
    assert np.all(np.abs(np.mean(draws, 0) - POINTS.mean(0)) < errors)


@pytest.mark.parametrize("num_directions", [4, 2])
def test_coordinates_are_whitened_and_their_volume_is_exact(num_directions):
    fitted = fit_factor_gaussian(POINTS, num_directions=num_directions, jitter=0.01).one(0)
    z = jnp.asarray(RNG.normal(size=4), jnp.float32)
    np.testing.assert_allclose(fitted.coordinates_of(fitted.place(z)), z, atol=1e-4)
    jacobian = jax.jacobian(fitted.place)(z)
    assert float(fitted.log_volume()) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-4)
    if num_directions == 4:
        covariance = np.cov(POINTS.T, bias=True) + 0.01 * np.eye(4)
        np.testing.assert_allclose(jacobian @ jacobian.T, covariance, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("mean", "scale"), [(0.9, 0.2), (-1.3, 0.5), (0.0, 5.0)])
def test_a_density_in_a_box_unfolds_to_the_same_integral(mean, scale):
    """exp(2 x) in [-1, 1.5], on a grid; the largest scale is cut to a third of the width."""
    unfolded = evidence.unfold(lambda x: 2 * jnp.sum(x), -1.0, 1.5, mean=mean, scale=scale)
    grid = np.linspace(-8, 9, 40_001, dtype=np.float32)[:, None]
    total = np.exp(np.asarray(jax.vmap(unfolded)(grid), np.float64)).sum() * (17 / 40_000)
    assert total == pytest.approx((np.exp(3) - np.exp(-2)) / 2, rel=1e-3)


@pytest.mark.slow
def test_fitted_coordinates_narrow_the_interval():
    """A correlated Gaussian of 32 dimensions: 0.1 nats, where the plain base has 0.8."""
    factor = RNG.normal(size=(32, 32))
    covariance = factor @ factor.T / 32 + 0.1 * np.eye(32)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    base = evidence.gaussian_base(RNG.multivariate_normal(np.zeros(32), covariance, size=1000))
    log_z = 0.5 * (32 * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1])
    for seed in range(4):
        found = evidence.log_partition(
            jax.random.key(seed), lambda x: -0.5 * x @ precision @ x, base, num_long=100
        )
        assert found.is_closed
        assert np.ptp(found.interval) < 0.1
        assert abs(found.value - log_z) < 0.05
    samples = np.asarray(found.samples)  # back in the positions' own coordinates
    variances = np.diag(covariance)
    assert np.abs(np.log(samples.var(axis=0) / variances)).mean() < 5 * np.sqrt(2 / len(samples))


@pytest.mark.slow
def test_a_box_with_a_drift_towards_its_wall():
    """exp(3 sum x) in [-1, 1]^4: (2 sinh 3 / 3)^4."""
    rates = RNG.uniform(size=(2000, 4))
    data = np.log(np.exp(-3) + rates * (np.exp(3) - np.exp(-3))) / 3
    density = evidence.unfold(
        lambda x: 3.0 * jnp.sum(x), -1.0, 1.0, mean=data.mean(0), scale=data.std(0)
    )
    base = evidence.gaussian_base(data)
    found = evidence.log_partition(jax.random.key(0), density, base, num_long=200)
    assert found.is_closed
    assert found.interval[0] < 4 * np.log(2 * np.sinh(3) / 3) < found.interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_relaxed_boltzmann_machine(seed):
    """16 hidden units: Z is a sum over their 2^16 states, and the visible ones are Gaussian."""
    rng = np.random.default_rng(seed)
    weights, offset, bias = rng.normal(size=(6, 16)) / 2, rng.normal(size=6), rng.normal(size=16)
    states = (np.arange(2**16)[:, None] >> np.arange(16)) & 1
    means = offset + states @ weights.T
    logits = states @ bias + 0.5 * (np.sum(means**2, 1) - np.sum(offset**2))
    log_z = 3 * np.log(2 * np.pi) + np.logaddexp.reduce(logits)
    drawn = rng.choice(2**16, 2256, p=np.exp(logits - np.logaddexp.reduce(logits)))
    samples = (means[drawn] + rng.normal(size=(2256, 6))).astype(np.float32)
    w, b, c = (jnp.asarray(a, jnp.float32) for a in (weights, offset, bias))

    def density(v):
        return -0.5 * jnp.sum((v - b) ** 2) + jnp.sum(jax.nn.softplus(c + v @ w))

    # |v - b|^2 / 2 - v W h = |v - b - W h|^2 / 2 - ..., whose rest is in the logits.
    base = evidence.gaussian_base(samples[256:])
    found = evidence.log_partition(
        jax.random.key(seed), density, base, samples=jnp.asarray(samples[:256]), num_long=100
    )
    assert found.is_closed
    assert found.interval[0] < log_z < found.interval[1]


@pytest.mark.slow
def test_a_gaussian_of_one_mode_does_not_close():
    """Masses 0.2 and 0.8, ten deviations apart, data of the smaller alone; exact samples know."""
    centres = jnp.array([[-5.0, 0.0], [5.0, 0.0]])

    def density(x):
        return jax.nn.logsumexp(
            -0.5 * jnp.sum((x[None] - centres) ** 2, -1), b=jnp.array([0.2, 0.8])
        )

    rng = np.random.default_rng(0)
    noise, is_far = rng.normal(size=(256, 2)), rng.uniform(size=(256, 1)) < 0.8
    samples = jnp.asarray(noise + np.where(is_far, centres[1], centres[0]), jnp.float32)
    narrow = evidence.gaussian_base(noise + np.asarray(centres[0]))
    options = {"samples": samples, "num_long": 0}
    found = evidence.log_partition(jax.random.key(0), density, narrow, **options)
    assert not found.is_closed
    assert found.lower.value == pytest.approx(np.log(0.2 * 2 * np.pi), abs=0.1)
    wide = evidence.gaussian_base(samples)
    found = evidence.log_partition(jax.random.key(0), density, wide, **options)
    assert found.is_closed
    assert found.interval[0] < np.log(2 * np.pi) < found.interval[1]


@pytest.mark.slow
def test_a_temperature_is_fitted_to_data():
    """N(0, I) at T = 4 fits data of deviation 2; its chains' error is some percent."""
    data = 2.0 * np.random.default_rng(0).normal(size=(2000, 5)).astype(np.float32)
    coordinates = evidence.gaussian_base(data).coordinates
    density = lambda x: -0.5 * jnp.sum(x**2)  # noqa: E731
    found = evidence.fit_temperature(jax.random.key(0), density, data, coordinates)
    assert found == pytest.approx(4.0, rel=0.15)
    # In the box [0, 3] a flat density fits at T = infinity; exp(x) at T < infinity.
    data = np.random.default_rng(0).exponential(0.5, size=(2000, 1)).astype(np.float32)
    data = data[data[:, 0] < 3]
    extend = lambda f: evidence.unfold(f, 0.0, 3.0, mean=data.mean(), scale=data.std())  # noqa: E731
    coordinates = evidence.gaussian_base(data).coordinates
    found = evidence.fit_temperature(
        jax.random.key(0), lambda x: -jnp.sum(x), data, coordinates, extend=extend
    )
    assert found == pytest.approx(0.5, rel=0.25)
