r"""Noise whose covariance between particles is their Gaussian kernel, made without factoring it.

A Gaussian kernel is a mean over plane waves (Bochner): with :math:`w \sim N(0, I / h^2)`

.. math:: \mathbb{E}\, \cos\big(w \cdot (x_i - x_j)\big) = e^{-\lVert x_i - x_j \rVert^2 / 2 h^2}
   = k(x_i, x_j),

so :math:`\eta_i = \cos(w \cdot x_i)\, \zeta + \sin(w \cdot x_i)\, \zeta'`, with independent
standard normal vectors :math:`\zeta, \zeta'`, has the covariance K between particles on average
over w. Each particle alone has exactly N(0, I), since the squares of cosine and sine sum to one.
With a separate phase for each particle, uniform on the circle, the same sum is uncorrelated between
particles: a wave of infinite frequency.

Sums of a few waves cost O(n d) and a handful of random numbers a particle. A Cholesky factor of K
costs O(n^3) and n d random numbers, and most of its work runs on one thread.

Source: Rahimi & Recht 2007 for the waves; using them as noise is new here.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._axes import first_key
from ebmjax.samplers._svgd import SteinTerms, centre, multiply
from ebmjax.types import Key

NUM_WAVES = 8
"""Number of waves, drawn anew at every step. With 4 or more, the error in law was that of exact
noise from a Cholesky factor (docs/samplers/svgd.md)."""


def kernel_noise(key: Key, terms: SteinTerms, independent: Any) -> jax.Array:
    """Returns (m, d): noise for the own particles, with mean zero and covariance K +
    ``independent`` I.

    The covariance is between particles, the same in every coordinate, and an average over waves.
    Coordinates are independent. Given any waves, one particle's noise is N(0, (1 + ``independent``)
    I).

    Args:
      key: this member's; all waves are drawn with the first member's key.
      terms: kernel and scores of the particles.
      independent: variance of the noise that is uncorrelated between particles; not negative.
    """
    positions = terms.own(centre(terms.positions))
    dimension, dtype = positions.shape[1], positions.dtype
    common_key, phase_key = jax.random.split(key)
    frequency_key, amplitude_key = jax.random.split(first_key(common_key, terms.axis_name))

    frequencies = jax.random.normal(frequency_key, (dimension, NUM_WAVES), dtype)
    phases = multiply(positions / terms.bandwidth, frequencies)
    own_phases = jax.random.uniform(phase_key, phases.shape, dtype, maxval=2.0 * jnp.pi)
    share = jnp.sqrt(jnp.asarray(independent, dtype))
    waves = jnp.concatenate(
        [
            jnp.cos(phases),
            jnp.sin(phases),
            share * jnp.cos(own_phases),
            share * jnp.sin(own_phases),
        ],
        axis=1,
    )
    amplitudes = jax.random.normal(amplitude_key, (waves.shape[1], dimension), dtype)
    return multiply(waves, amplitudes) / NUM_WAVES**0.5
