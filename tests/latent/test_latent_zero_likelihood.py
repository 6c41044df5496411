"""Draws of zero likelihood, a log of -inf, in every estimator of the log evidence.

z ~ N(0, 1) and log p(x | z) = -z where z > 0 and -inf elsewhere: p(x) = exp(1/2) P(z < -1), and
half of the prior's draws have likelihood zero.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import log_ndtr, ndtr, ndtri

from ebmjax import evidence, latent
from ebmjax.samplers import mala

LOG_EVIDENCE = 0.5 + float(log_ndtr(-1.0))
POWERS = latent.power_schedule(4, 1.0)
MALA = functools.partial(mala, step_size=0.2)


def log_base(z):
    return -0.5 * (z**2 + jnp.log(2.0 * jnp.pi))


def log_likelihood(z):
    return jnp.where(z > 0, -z, -jnp.inf)


def exact_log_likelihoods(num_chains):
    """Shape (num_powers, num_chains): above power 0, normals of mean -t that are positive."""
    u = jax.random.uniform(jax.random.key(0), (len(POWERS), num_chains), minval=1e-6)
    means = -POWERS[1:, None]
    above = means - ndtri(u[1:] * ndtr(means))
    return log_likelihood(jnp.concatenate([ndtri(u[:1]), above]))


def assert_right(estimate):
    assert estimate.standard_error < 0.05
    assert abs(estimate.value - LOG_EVIDENCE) < 5 * estimate.standard_error


@pytest.mark.slow
def test_stepping_stones_weigh_them_with_zero():
    chains = exact_log_likelihoods(4000)
    assert 0.4 < np.isneginf(chains[0]).mean() < 0.6
    assert np.isfinite(chains[1:]).all()
    assert_right(evidence.stepping_stone_log_evidence(chains, POWERS))


def test_the_thermodynamic_sum_has_no_value():
    """The mean at power 0 is -inf, with or without divergences: said so, not averaged over."""
    chains, ones = exact_log_likelihoods(100), jnp.ones(len(POWERS) - 1)
    for divergences in ({}, {"kl_forward": ones, "kl_backward": ones}):
        estimate = evidence.thermodynamic_log_evidence(chains, POWERS, **divergences)
        assert np.isneginf(estimate.value)
        assert np.isnan(estimate.standard_error)


def test_annealed_importance_sampling_weighs_them_with_zero():
    start = jax.random.normal(jax.random.key(1), (4000,))
    samples = evidence.annealed_importance_sampling(
        jax.random.key(2), start, POWERS, log_base, log_likelihood, sampler=MALA, num_steps=2
    )
    # Those that start outside have weight zero for good, though they move inside.
    np.testing.assert_array_equal(np.isneginf(samples.log_weights), start <= 0)
    assert np.isfinite(samples.positions).all()
    assert_right(samples.estimate)


def test_sequential_monte_carlo_resamples_them_away():
    start = jax.random.normal(jax.random.key(3), (16, 500))
    assert_right(
        evidence.smc_log_normalizer(
            jax.random.key(4), start, POWERS, log_base, log_likelihood, sampler=MALA, num_steps=2
        )
    )
