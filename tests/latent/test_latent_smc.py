"""Tempered SMC against known normalising constants."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from annealing_problem import (
    LOG_EVIDENCE,
    LOG_Z,
    MALA,
    MODEL,
    PARAMS,
    POWERS,
    X,
    base_draws,
    fixed_shift,
)

from ebmjax.evidence import smc_log_normalizer
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
