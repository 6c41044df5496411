"""Draws of zero likelihood, a log of -inf, in estimators of the log evidence.

z ~ N(0, 1) and log p(x | z) = -z where z > 0 and -inf elsewhere: p(x) = exp(1/2) P(z < -1), and
half of the prior's draws have likelihood zero.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from ebmjax import evidence, latent
from ebmjax.samplers import mala

LOG_EVIDENCE = 0.5 + float(log_ndtr(-1.0))
POWERS = latent.power_schedule(4, 1.0)
MALA = functools.partial(mala, step_size=0.2)


def log_base(z):
    return -0.5 * (z**2 + jnp.log(2.0 * jnp.pi))


def log_likelihood(z):
    return jnp.where(z > 0, -z, -jnp.inf)


def test_the_thermodynamic_sum_has_no_value():
    """The mean at power 0 is -inf, with or without divergences: said so, not averaged over."""
    chains, ones = jnp.full((len(POWERS), 100), -1.0).at[0, :50].set(-jnp.inf), jnp.ones(4)
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
    assert samples.estimate.standard_error < 0.05
    assert abs(samples.estimate.value - LOG_EVIDENCE) < 5 * samples.estimate.standard_error
