"""The generator of the latent energy-based model: a latent vector in, an image out."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

from ebmjax._checks import check_at_least
from ebmjax.networks._convolution import TransposedConvolution
from ebmjax.networks._convolve import Lowering

LEAK = 0.2


class ConvGenerator(nn.Module):
    """4x4 transposed convolutions from z (..., d) to images (..., H, W, channels) in (-1, 1).

    The first layer takes the 1x1 latent to 4x4 pixels without padding. Each later layer doubles the
    side, so H = W = 4 * 2^len(features). Leaky ReLU of slope 0.2 lies between layers, tanh at the
    end; there is no normalisation. ``features=(16 f, 8 f, 4 f)`` gives 32x32, ``(16 f, 8 f, 4 f, 2
    f)`` 64x64, one entry 8x8.

    Weights start LeCun normal and biases at zero, as in the thesis's public code (which has no
    biases). The fan-in counts all 16 taps, but only 4 reach a pixel (1 in the first layer). So
    images start nearly grey; the published Langevin step sizes were chosen with that.

    Attributes:
      features: output channels of every layer but the last.
      channels: of the image.
      lowering: of the convolutions, see ``Convolution``.
      dtype: of the computation; the image is always float32.
      kernel_init: of every layer.

    Raises:
      ValueError: if a number of channels is below one or z is a scalar.

    Source: thermodynamic-integration thesis and its public code (f = 64). Its Table 5 prints one
    more layer, which would double the images' side.

    Example:
      >>> generator = ConvGenerator(features=(64,), channels=1)
      >>> params = generator.init(jax.random.key(0), jnp.zeros(16))
      >>> generator.apply(params, jnp.zeros((5, 16))).shape
      (5, 8, 8, 1)
    """

    features: Sequence[int]
    channels: int
    lowering: Lowering | None = None
    dtype: Any = None
    kernel_init: Initializer = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        if jnp.ndim(z) == 0:
            raise ValueError("z must have shape (d,) or (..., d), got a scalar; use z[None].")
        images = z[..., None, None, :]
        for layer, width in enumerate((*self.features, self.channels)):
            check_at_least("channels and every entry of features", width, 1)
            images = _leaky_relu(images) if layer else images
            images = TransposedConvolution(
                width,
                stride=2 if layer else 1,
                padding="SAME" if layer else "VALID",
                lowering=self.lowering,
                dtype=self.dtype,
                kernel_init=self.kernel_init,
            )(images)
        return jnp.tanh(images.astype(jnp.float32))


def _leaky_relu(x: jax.Array) -> jax.Array:
    """Computes ``flax.linen.leaky_relu`` with one selection in the backward pass instead of two."""
    return x * jnp.where(x >= 0, 1.0, LEAK)
