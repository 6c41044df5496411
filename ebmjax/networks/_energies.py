"""Small energies and classifiers; an energy is low where the model finds a position likely."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.networks._convolution import Convolution, check_images

LARGEST_SIDE = 8
"""Convolutions halve an image until its longer side is no larger."""


class MLPEnergy(nn.Module):
    """Multilayer perceptron from a position (..., d) to an energy (...,), in float32.

    The default is the 2-32-64-64-64-1 network for toy densities in the plane, with the swish
    activation: Langevin dynamics and MALA assume a smooth score. Weights start LeCun normal, biases
    at zero.

    Attributes:
      hidden: widths of the hidden layers; without any the energy is linear.
      activation: elementwise.
      dtype: of the hidden layers; the last layer and the energy are always float32.
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
    """

    hidden: Sequence[int] = (100, 100)
    activation: Callable[[jax.Array], jax.Array] = functools.partial(
        nn.leaky_relu, negative_slope=0.1
    )


class ConvClassifier(nn.Module):
    """Network from images (..., H, W, C), or one image, to logits (..., num_classes) in float32.

    3x3 convolutions of stride 2 halve the image, rounded up, until its longer side has 8 pixels or
    fewer; there is at least one. The first makes ``features`` channels, each further one twice as
    many: by default 16, and 32 if there is no further one. All pixels then go into a dense layer of
    ``hidden`` units, and these into the logits. The activation is swish. It has no normalisation,
    so an image's logits depend on it alone, and no mean over pixels, so a score does not fade with
    their number. Weights start LeCun normal, biases at zero.

    Attributes:
      num_classes: number of logits.
      features: channels of the first convolution; None for the default.
      hidden: width of the dense layer.
      dtype: of the computation up to the logits; these are float32.

    Example:
      >>> network = ConvClassifier(num_classes=10)
      >>> params = jax.jit(network.init)(jax.random.key(0), jnp.zeros((28, 28, 1)))
      >>> jax.jit(network.apply)(params, jnp.zeros((5, 28, 28, 1))).shape
      (5, 10)
    """

    num_classes: int
    features: int | None = None
    hidden: int = 64
    dtype: Any = None

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        check_images(images)
        first = self.features
        if first is None:
            first = 32 if max(images.shape[-3:-1]) <= 2 * LARGEST_SIDE else 16
        sizes = {"num_classes": self.num_classes, "features": first, "hidden": self.hidden}
        for name, value in sizes.items():
            check_at_least(name, value, 1)
        start, x, width = nn.initializers.lecun_normal(), images, first
        while width == first or max(x.shape[-3:-1]) > LARGEST_SIDE:
            x = nn.swish(Convolution(width, stride=2, kernel_init=start, dtype=self.dtype)(x))
            width *= 2
        x = x.reshape(*x.shape[:-3], -1)
        x = nn.swish(nn.Dense(self.hidden, dtype=self.dtype)(x))
        return nn.Dense(self.num_classes, dtype=jnp.float32)(x)


class ConvEnergy(nn.Module):
    """Energies (...) of images (..., H, W, C): minus the one logit of a ``ConvClassifier``."""

    features: int | None = None
    hidden: int = 64
    dtype: Any = None

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        network = ConvClassifier(1, self.features, self.hidden, self.dtype)
        return -network(images)[..., 0]
