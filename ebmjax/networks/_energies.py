"""Fully connected energies: one scalar per position, low where the model finds it likely."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least


class MLPEnergy(nn.Module):
    """Multilayer perceptron from a position (..., d) to an energy (...,), in float32.

    The default is the 2-32-64-64-64-1 network for toy densities in the plane, with the swish
    activation. Langevin dynamics and MALA assume a smooth score; a piecewise-linear activation
    would make it piecewise constant.

    Attributes:
      hidden: widths of the hidden layers; without any the energy is linear.
      activation: elementwise.
      dtype: dtype of the hidden layers; the last layer and the energy are always float32.

    Weights start LeCun normal, biases at zero.

    Example:
      >>> energy = MLPEnergy()
      >>> params = energy.init(jax.random.key(0), jnp.zeros(2))
      >>> energy.apply(params, jnp.zeros((5, 2))).shape
      (5,)
    """

    hidden: Sequence[int] = (32, 64, 64, 64)
    activation: Callable[[jax.Array], jax.Array] = nn.swish
    dtype: Any = None

    @nn.compact
    def __call__(self, position: jax.Array) -> jax.Array:
        if jnp.ndim(position) == 0:
            raise ValueError(
                "position must have shape (d,) or (..., d), got a scalar; use position[None]."
            )
        for width in self.hidden:
            check_at_least("every width in hidden", width, 1)
            position = self.activation(nn.Dense(width, dtype=self.dtype)(position))
        return nn.Dense(1, dtype=jnp.float32)(position)[..., 0]


class LatentEnergy(MLPEnergy):
    """Energy (...,) of a latent vector z (..., d) relative to its base Gaussian.

    The prior is ``exp(-energy(z)) N(z; 0, sigma_0^2 I) / Z``, so this is minus the papers' tilt
    f_alpha: low where the prior puts more mass than the Gaussian. It is an ``MLPEnergy`` with the
    thesis's widths and leaky ReLU of slope 0.1. Weights start LeCun normal and biases at zero, as
    in the thesis's public code.

    Source: Pang et al. 2020; thermodynamic-integration thesis, Table 5 (z-100-100-1).

    Example:
      >>> energy = LatentEnergy()
      >>> params = energy.init(jax.random.key(0), jnp.zeros(80))
      >>> energy.apply(params, jnp.zeros(80)).shape
      ()
    """

    hidden: Sequence[int] = (100, 100)
    activation: Callable[[jax.Array], jax.Array] = functools.partial(
        nn.leaky_relu, negative_slope=0.1
    )
