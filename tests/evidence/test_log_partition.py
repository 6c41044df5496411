"""log Z in an interval, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import densities, evidence, samplers
from ebmjax.evidence._log_partition import _bennett, _low_end
from ebmjax.evidence._pilot import refit_base

LOG_2PI = np.log(2 * np.pi)


def gaussian(dim, mean=0.0, scale=1.0):
    """A normalised isotropic Gaussian as a base."""

    def log_density_fn(x):
        whitened = (x - mean) / scale
        return -0.5 * jnp.sum(whitened**2) - dim * (np.log(scale) + 0.5 * LOG_2PI)

    return evidence.Base(lambda key: mean + scale * jax.random.normal(key, (dim,)), log_density_fn)


def correlated(dim):
    """An unnormalised Gaussian and its log Z."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(dim, dim))
    covariance = factor @ factor.T / dim + 0.1 * np.eye(dim)
    precision, mean = (
        jnp.asarray(np.linalg.inv(covariance), jnp.float32),
        jnp.asarray(rng.normal(size=dim), jnp.float32),
    )
    log_z = 0.5 * (dim * LOG_2PI + np.linalg.slogdet(covariance)[1])
    return lambda x: -0.5 * (x - mean) @ precision @ (x - mean), log_z


def two_modes():
    """Modes of masses 1 and 4, ten deviations apart; log Z = log 5 + log 2 pi."""
    one, other = (lambda x, at=at: -0.5 * jnp.sum((x - at) ** 2) for at in (-5.0, 5.0))
    return densities.mixture([one, other], [1.0, 4.0])


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "num"), [(2, 20), (16, 8)])
def test_the_interval_holds_the_log_z_of_a_gaussian(dim, num):
    """All seeds but one; each end errs in 1 %, and sides err outwards."""
    density, log_z = correlated(dim)
    found = [
        evidence.log_partition(jax.random.key(seed), density, gaussian(dim, scale=2.0))
        for seed in range(num)
    ]
    inside = [one.interval[0] <= log_z <= one.interval[1] for one in found]
    assert sum(inside) >= num - 1
    assert all(one.is_closed for one in found)
    assert np.median([np.ptp(one.interval) for one in found]) < 1.0
    # Bennett's estimates are hardly biased: 5 standard errors of their mean.
    errors = np.array([one.value for one in found]) - log_z
    assert abs(errors.mean()) < 5 * errors.std(ddof=1) / np.sqrt(num)
    for one in found:
        assert np.all(np.diff(one.powers) > 0)
        assert (one.powers[0], one.powers[-1]) == (0.0, 1.0)
        assert 0.5 < one.acceptance_prob.mean() < 0.9


@pytest.mark.slow
def test_a_refitted_base_narrows_the_interval():
    """The base has three times the deviation, and a tenth of the usual powers must do."""
    density, log_z = correlated(16)
    options = {"num_powers": 20, "num_steps": 1, "num_long": 300}
    near, far = (
        [
            evidence.log_partition(
                jax.random.key(seed), density, gaussian(16, scale=3.0), refit=refit, **options
            )
            for seed in range(num)
        ]
        for refit, num in ((True, 5), (False, 2))
    )
    assert sum(one.interval[0] <= log_z <= one.interval[1] for one in near) >= 4
    widths, before = (np.median([np.ptp(one.interval) for one in found]) for found in (near, far))
    assert widths < 0.3 * before


@pytest.mark.slow
def test_a_refitted_base_is_normalised():
    """Importance weights of a wide Gaussian have mean 1, to 5 standard errors."""
    density, wide = two_modes(), gaussian(2, scale=6.0)
    base = refit_base(
        jax.random.key(0),
        density,
        wide,
        num_long=40,
        sampler=samplers.mala,
        num_steps=2,
        num_chains=64,
        target=0.7,
        first_step=0.1,
    )
    draws = jax.vmap(wide.draw)(jax.random.split(jax.random.key(1), 20_000))
    logs = [np.asarray(jax.vmap(one.log_density_fn)(draws)) for one in (base, wide)]
    weights = np.exp(logs[0] - logs[1])
    assert abs(weights.mean() - 1) < 5 * weights.std() / np.sqrt(len(weights))
    # Draws are of the density: their mean log ratio is the weighted one of the wide draws.
    own = jax.vmap(base.draw)(jax.random.split(jax.random.key(2), 20_000))
    squares = np.sum(np.asarray(own) ** 2, axis=1)
    expected = weights * np.sum(np.asarray(draws) ** 2, axis=1)
    error = np.hypot(squares.std(), expected.std()) / np.sqrt(20_000)
    assert abs(squares.mean() - expected.mean()) < 5 * error


def test_a_refit_of_positions_that_are_no_array_is_refused():
    base = evidence.Base(lambda key: {"x": jax.random.normal(key)}, lambda x: -0.5 * x["x"] ** 2)
    with pytest.raises(TypeError, match=r"one array, got draws of the base that are dict.*refit"):
        evidence.log_partition(jax.random.key(0), base.log_density_fn, base, refit=True)


@pytest.mark.slow
def test_a_wide_base_finds_both_modes():
    found = evidence.log_partition(jax.random.key(0), two_modes(), gaussian(2, scale=6.0))
    assert found.is_closed
    assert found.interval[0] < np.log(5) + LOG_2PI < found.interval[1]


@pytest.mark.slow
def test_a_mode_that_the_base_misses_keeps_the_sides_apart():
    """The forward side finds the mode of mass 1 alone; exact samples know both."""
    key = jax.random.key(1)
    signs = jnp.where(jax.random.uniform(key, (256, 1)) < 0.2, -5.0, 5.0)
    samples = signs + jax.random.normal(jax.random.key(2), (256, 2))
    base = gaussian(2, mean=-5.0, scale=1.2)
    found = evidence.log_partition(key, two_modes(), base, samples=samples)
    assert found.lower.value == pytest.approx(LOG_2PI, abs=0.1)
    assert not found.is_closed
    assert found.interval[1] > np.log(5) + LOG_2PI


def test_bennetts_root_is_exact_for_paths_of_constant_weight():
    assert _bennett(np.full(3, 1.5), np.full(5, -1.5)) == pytest.approx(1.5, abs=1e-6)


def test_a_chain_that_outweighs_all_is_not_forgotten():
    """A third of the resamples lack it; a mean of 1 / 64 is at most 100 times too large."""
    weights = np.append(np.zeros(63), 100.0)
    assert _low_end(np.random.default_rng(0), weights) == pytest.approx(100 - np.log(6400))


def test_gaussian_works_meet_at_their_log_z():
    """Works N(m + v / 2, v) forward and N(-m + v / 2, v) in reverse obey Crooks: 5 errors."""
    rng, mean, variance, num = np.random.default_rng(0), 3.0, 4.0, 20_000
    forward = rng.normal(mean - variance / 2, np.sqrt(variance), num)
    backward = rng.normal(-mean - variance / 2, np.sqrt(variance), num)
    assert _bennett(forward, backward) == pytest.approx(mean, abs=5 * 2 / np.sqrt(num))


def test_a_base_outside_of_the_density_is_refused():
    inside = lambda x: jnp.where(jnp.all(jnp.abs(x) < 1), 0.0, -jnp.inf)  # noqa: E731
    with pytest.raises(ValueError, match="must be finite at every draw of the base, got"):
        evidence.log_partition(jax.random.key(0), inside, gaussian(2, scale=3.0))
