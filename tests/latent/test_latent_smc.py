"""Tempered SMC against known normalising constants."""

import functools

import blackjax
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

from ebmjax.evidence import log_mean_exp, smc_log_normalizer
from ebmjax.latent import path_to_posterior

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


def test_smc_on_a_single_interval_is_importance_sampling():
    """It is the mean tilt of the particles."""
    start = base_draws(5, (2, 40))
    path = path_to_posterior(PARAMS, MODEL, X)
    ends = jnp.array([0.0, 1.0])
    estimate = smc_log_normalizer(
        jax.random.key(0), start, ends, *path, sampler=fixed_shift(0.0), num_steps=1
    )
    expected = log_mean_exp(jax.vmap(path.log_tilt_fn)(start.reshape(-1, 2))).value
    np.testing.assert_allclose(estimate.value, expected, rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize(("changes", "message"), BAD_INPUT)
def test_bad_input_is_refused(changes, message):
    """With a kernel that checks nothing itself."""
    with pytest.raises(ValueError, match=message):
        try_with(smc_log_normalizer, BLACKJAX, **{"start": jnp.zeros((2, 3)), **changes})


def test_one_repeat_has_no_error_and_is_refused():
    with pytest.raises(ValueError, match=r"repeats.*at least 2"):
        try_with(smc_log_normalizer, MALA, jnp.zeros((1, 3)))
