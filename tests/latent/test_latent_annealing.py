"""Annealed importance sampling against known normalising constants."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from annealing_problem import (
    BAD_INPUT,
    LOG_EVIDENCE,
    LOG_Z,
    MALA,
    MODEL,
    PARAMS,
    POWERS,
    X,
    base_draws,
    fixed_shift,
    try_with,
)

from ebmjax import evidence, latent
from ebmjax.samplers import sgld

REPEATS, CHAINS = 200, 100


anneal = jax.jit(
    evidence.annealed_importance_sampling,
    static_argnums=(3, 4),
    static_argnames=("sampler", "num_steps"),
)


@pytest.fixture(scope="module")
def to_posterior():
    """Many chains from the base to the posterior: REPEATS * CHAINS of them."""
    start = base_draws(0, (REPEATS * CHAINS,))
    path = latent.path_to_posterior(PARAMS, MODEL, X)
    return anneal(jax.random.key(1), start, POWERS, *path, sampler=MALA, num_steps=2)


def test_weights_are_unbiased(to_posterior):
    """E[w] = Z p(x), on the weights themselves; the log only changes the scale."""
    estimate = evidence.log_mean_exp(to_posterior.log_weights)
    assert estimate.standard_error < 0.02
    assert abs(estimate.value - LOG_Z - LOG_EVIDENCE) < 5 * estimate.standard_error


def test_standard_error_is_the_spread_over_repeats(to_posterior):
    """The spread of R repeats is known to 1 / sqrt(2 (R - 1)), 5 % of it; 5 of those."""
    repeats = evidence.log_mean_exp(to_posterior.log_weights.reshape(REPEATS, CHAINS).T)
    spread = np.std(np.asarray(repeats.value), ddof=1)
    typical = np.sqrt(np.mean(np.square(repeats.standard_error)))
    assert abs(typical / spread - 1) < 5 / np.sqrt(2 * (REPEATS - 1))


def test_weighted_positions_are_the_posterior(to_posterior):
    """Self-normalised means of z and of z z^T, held to 5 of their own standard errors."""
    weights = np.exp(np.asarray(to_posterior.log_weights, np.float64))
    weights /= weights.sum()
    z = np.asarray(to_posterior.positions, np.float64)
    mean, covariance = latent.linear_gaussian_power_posterior(PARAMS, MODEL, X, 1.0)
    for values, expected in (
        (z, mean),
        (z[:, :, None] * z[:, None, :], covariance + jnp.outer(mean, mean)),
    ):
        values = values.reshape(len(z), -1)
        average = weights @ values
        error = np.sqrt(weights**2 @ (values - average) ** 2)
        assert np.all(np.abs(average - np.ravel(expected)) < 5 * error)
    assert to_posterior.infos.acceptance_prob.shape == (len(POWERS) - 1, len(z))
    assert float(to_posterior.infos.acceptance_prob.mean()) > 0.7


def test_on_a_single_interval_it_is_importance_sampling():
    start = base_draws(2, (50,))
    path = latent.path_to_posterior(PARAMS, MODEL, X)
    samples = anneal(
        jax.random.key(0), start, jnp.array([0.0, 1.0]), *path, sampler=MALA, num_steps=1
    )
    np.testing.assert_allclose(
        samples.log_weights, jax.vmap(path.log_tilt_fn)(start), rtol=1e-6, atol=1e-5
    )


def test_order_of_weighing_and_moving_by_hand():
    """Weigh by the interval at the old position, then move at the new power, k steps."""
    powers = jnp.array([0.0, 0.25, 1.0])
    samples = evidence.annealed_importance_sampling(
        jax.random.key(0),
        jnp.array([1.0, 2.0]),
        powers,
        lambda z: 10.0 * z,
        lambda z: z**2,
        sampler=fixed_shift(1.0),
        num_steps=2,
    )
    np.testing.assert_allclose(samples.log_weights, [0.25 * 1 + 0.75 * 9, 0.25 * 4 + 0.75 * 16])
    np.testing.assert_allclose(samples.positions, [5.0, 6.0])
    # The density of each rung, at the last step's start: 10 z + t z^2.
    np.testing.assert_allclose(samples.infos, [[20 + 1, 30 + 2.25], [40 + 16, 50 + 25]])


def test_unadjusted_langevin_biases_the_weights():
    """The docstring warns of this bias: chains mix well, so only the step's error is left."""
    start = base_draws(3, (4000,))
    path = latent.path_to_posterior(PARAMS, MODEL, X)
    sampler = functools.partial(sgld, step_size=0.2)
    samples = anneal(jax.random.key(1), start, POWERS, *path, sampler=sampler, num_steps=4)
    estimate = evidence.log_mean_exp(samples.log_weights)
    assert abs(estimate.value - LOG_Z - LOG_EVIDENCE) > 10 * estimate.standard_error


@pytest.mark.slow
def test_evidence_and_normalizer_of_the_model():
    """Both runs within 5 of their errors, and the errors combined."""

    @jax.jit
    def both(first, second):
        arguments = {"num_chains": 3000, "sampler": MALA, "num_steps": 2}
        log_z = latent.ais_log_normalizer(first, PARAMS, MODEL, POWERS, 2, **arguments)
        known = evidence.Estimate(LOG_Z, 0.0)
        evidences = [
            latent.ais_log_evidence(
                second, PARAMS, MODEL, X, POWERS, 2, log_normalizer=given, **arguments
            )
            for given in (log_z, known)
        ]
        return log_z, *evidences

    log_z, found, with_known = both(jax.random.key(0), jax.random.key(1))
    assert abs(log_z.value - LOG_Z) < 5 * log_z.standard_error
    for estimate in (found, with_known):
        assert abs(estimate.value - LOG_EVIDENCE) < 5 * estimate.standard_error
        assert estimate.standard_error < 0.1
    np.testing.assert_allclose(
        np.square(found.standard_error),
        np.square(log_z.standard_error) + np.square(with_known.standard_error),
        rtol=1e-4,
    )
    # The same chains: the two differ by what was subtracted, to a few roundings of 10 nats.
    np.testing.assert_allclose(found.value - with_known.value, LOG_Z - log_z.value, atol=1e-5)


@pytest.mark.slow
def test_an_observation_of_each_device():
    """Within shard_map, with one key for all of them."""
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    whole, rows = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("data")
    arguments = {"num_chains": 4, "sampler": MALA, "num_steps": 2}

    def log_evidence(key, x):
        known = evidence.Estimate(jnp.float32(LOG_Z), jnp.float32(0))
        return latent.ais_log_evidence(
            key, PARAMS, MODEL, x, POWERS, 2, log_normalizer=known, **arguments
        ).value

    observations = jnp.stack([jnp.asarray(X), 2 * jnp.asarray(X)])
    found = jax.jit(
        jax.shard_map(
            lambda key, x: log_evidence(key, x[0])[None],
            mesh=mesh,
            in_specs=(whole, rows),
            out_specs=rows,
        )
    )(KEY := jax.random.key(0), observations)
    expected = [jax.jit(log_evidence)(KEY, x) for x in observations]
    np.testing.assert_allclose(found, expected, rtol=1e-4)  # roundings along 3 x 2 steps


def test_starts_have_the_scale_of_the_base():
    """On one interval nothing moves before it is weighed, so that wrong starts are not mended."""
    ends = jnp.array([0.0, 1.0])
    estimate = latent.ais_log_normalizer(
        jax.random.key(0), PARAMS, MODEL, ends, 2, num_chains=20_000, sampler=MALA, num_steps=1
    )
    unit_scale = latent.linear_gaussian_log_normalizer(PARAMS, MODEL._replace(base_scale=1.0))
    assert abs(unit_scale - LOG_Z) > 10 * estimate.standard_error
    assert abs(estimate.value - LOG_Z) < 5 * estimate.standard_error


def test_paths_start_at_the_normalised_base_and_end_at_the_model():
    z = jnp.array([0.3, -1.1])
    base = jax.scipy.stats.norm.logpdf(z, scale=MODEL.base_scale).sum()
    energy = MODEL.energy_fn(PARAMS.prior, z)
    fit = MODEL.generator_fn(PARAMS.generator, z)
    likelihood = jax.scipy.stats.norm.logpdf(X, fit, MODEL.likelihood_scale).sum()
    for path, tilt in (
        (latent.path_to_prior(PARAMS, MODEL), -energy),
        (latent.path_to_posterior(PARAMS, MODEL, X), likelihood - energy),
    ):
        np.testing.assert_allclose(path.log_base_fn(z), base, rtol=1e-6)
        np.testing.assert_allclose(path.log_tilt_fn(z), tilt, rtol=1e-5)


@pytest.mark.parametrize(("changes", "message"), BAD_INPUT)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        try_with(evidence.annealed_importance_sampling, MALA, **{"start": jnp.zeros(3), **changes})


def test_one_chain_has_no_error_and_is_refused():
    with pytest.raises(ValueError, match=r"num_chains.*at least 2"):
        latent.ais_log_normalizer(
            jax.random.key(0), PARAMS, MODEL, POWERS, 2, num_chains=1, sampler=MALA, num_steps=1
        )


def test_log_weights_may_be_a_list() -> None:
    assert float(evidence.log_mean_exp([0.0, 0.0]).value) == 0.0
    assert float(evidence.weight_sample_size([0.0, 0.0])) == 2.0
