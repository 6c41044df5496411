"""Annealed importance sampling and tempered SMC against known normalising constants."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL, PAIR, fixed_shift
from latent_problems import SQUARE as PARAMS

from ebmjax import evidence, latent
from ebmjax.evidence import smc_log_normalizer
from ebmjax.latent import path_to_posterior
from ebmjax.samplers import mala

X = PAIR[0]
LOG_Z = float(MODEL.log_normalizer(PARAMS))
LOG_EVIDENCE = float(MODEL.log_evidence(PARAMS, X))
POWERS = latent.power_schedule(6, 2.0)
MALA = functools.partial(mala, step_size=0.1)


def base_draws(seed, shape):
    return MODEL.base_scale * jax.random.normal(jax.random.key(seed), (*shape, 2))


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
    estimate = to_posterior.estimate
    assert estimate.standard_error < 0.02
    assert abs(estimate.value - LOG_Z - LOG_EVIDENCE) < 5 * estimate.standard_error


def test_standard_error_is_the_spread_over_repeats(to_posterior):
    """The spread of R repeats is known to 1 / sqrt(2 (R - 1)), 5 % of it; 5 of those."""
    log_weights = to_posterior.log_weights.reshape(REPEATS, CHAINS).T
    repeats = to_posterior._replace(log_weights=log_weights).estimate
    spread = np.std(np.asarray(repeats.value), ddof=1)
    typical = np.sqrt(np.mean(np.square(repeats.standard_error)))
    assert abs(typical / spread - 1) < 5 / np.sqrt(2 * (REPEATS - 1))


def test_weighted_positions_are_the_posterior(to_posterior):
    """Self-normalised means of z and of z z^T, held to 5 of their own standard errors."""
    weights = np.exp(np.asarray(to_posterior.log_weights, np.float64))
    weights /= weights.sum()
    z = np.asarray(to_posterior.positions, np.float64)
    mean, covariance = MODEL.power_posterior(PARAMS, X, 1.0)
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
        np.testing.assert_allclose(path[0](z), base, rtol=1e-6)
        np.testing.assert_allclose(path[1](z), tilt, rtol=1e-5)


BLACKJAX = functools.partial(blackjax.mala, step_size=0.1)


@pytest.mark.parametrize("sampler", [MALA, BLACKJAX], ids=["ours", "blackjax"])
def test_tempered_smc(sampler):
    """The log ratio within 5 standard errors of 64 repeats, and those are small."""
    start = base_draws(4, (64, 50))
    path = path_to_posterior(PARAMS, MODEL, X)
    estimate = jax.jit(
        lambda key: smc_log_normalizer(key, start, POWERS, *path, sampler=sampler, num_steps=2)
    )(jax.random.key(0))
    assert 0.0 < estimate.standard_error < 0.05
    assert abs(estimate.value - LOG_Z - LOG_EVIDENCE) < 5 * estimate.standard_error


def test_smc_weighs_before_it_takes_the_steps_it_is_told():
    """Particles at 0 that move by 1 a step are weighed at 0, then at 3: 0.75 * 3."""
    estimate = smc_log_normalizer(
        jax.random.key(0),
        jnp.zeros((2, 4)),
        jnp.array([0.0, 0.25, 1.0]),
        lambda z: -(z**2),
        lambda z: z,
        sampler=fixed_shift(1.0),
        num_steps=3,
    )
    np.testing.assert_allclose(estimate.value, 2.25, rtol=1e-6)
    np.testing.assert_allclose(estimate.standard_error, 0.0, atol=1e-6)


def test_repeats_of_smc_move_by_noise_of_their_own():
    """From the same particles they would be one repeat otherwise, with an error of 0."""
    path = path_to_posterior(PARAMS, MODEL, X)
    start = jnp.tile(base_draws(6, (1, 10)), (2, 1, 1))
    estimate = smc_log_normalizer(
        jax.random.key(0), start, POWERS, *path, sampler=MALA, num_steps=1
    )
    assert estimate.standard_error > 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps.*at least 1"),
        ({"powers": jnp.array([0.0, 0.5])}, "run from 0"),
        ({"start": jnp.zeros(())}, "start must be arrays that share their leading axis"),
        ({"log_tilt_fn": lambda z: jnp.stack([z, z])}, "must return a scalar"),
    ],
)
@pytest.mark.parametrize(
    ("estimator", "shape"),
    [(evidence.annealed_importance_sampling, 3), (evidence.smc_log_normalizer, (2, 3))],
)
def test_bad_input_is_refused(estimator, shape, changes, message):
    """With a kernel that checks nothing itself."""
    arguments = {
        "start": jnp.zeros(shape),
        "powers": POWERS,
        "log_base_fn": lambda z: -(z**2),
        "log_tilt_fn": lambda z: z,
        "sampler": BLACKJAX,
        "num_steps": 1,
    }
    with pytest.raises(ValueError, match=message):
        estimator(jax.random.key(0), **{**arguments, **changes})


def test_one_repeat_has_no_error_and_is_refused():
    options = {"sampler": MALA, "num_steps": 1}
    with pytest.raises(ValueError, match=r"repeats.*at least 2"):
        evidence.smc_log_normalizer(
            jax.random.key(0), jnp.zeros((1, 3)), POWERS, jnp.sum, jnp.sum, **options
        )
