"""Generators of the latent energy-based model: a latent vector in, an image out."""

import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

from ebmjax._checks import check_at_least
from ebmjax.networks._convolution import Lowering
from ebmjax.networks._transposed_convolution import TransposedConvolution

LEAK = 0.2


class ConvGenerator(nn.Module):
    """4x4 transposed convolutions from z (..., d) to images (..., H, W, channels) in (-1, 1).

    The first layer takes the 1x1 latent to 4x4 pixels without padding. Each later layer doubles the
    side, so H = W = 4 * 2^len(features). Leaky ReLU of slope 0.2 lies between layers, tanh at the
    end; there is no normalisation. ``features=(16 f, 8 f, 4 f)`` gives 32x32.

    With ``image_size`` a layer has half the side of the one after it, rounded up: two features and
    25 pixels give 7, 13, 25. The first layer makes the first side at once, by a kernel of that
    size.

    Weights start LeCun normal and biases at zero, as in the thesis's public code (which has no
    biases). The fan-in counts all 16 taps, but only 4 reach a pixel (1 in the first layer). So
    images start nearly grey; the published Langevin step sizes were chosen with that.

    Attributes:
      features: output channels of every layer but the last.
      channels: of the image.
      lowering: of the convolutions, see ``Convolution``.
      dtype: of the computation; the image is always float32.
      kernel_init: of every layer.
      image_size: (H, W) of the image; None for 4 * 2^len(features) both.

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
    image_size: tuple[int, int] | None = None

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        if jnp.ndim(z) == 0:
            raise ValueError("z must have shape (d,) or (..., d), got a scalar; use z[None].")
        if not self.features:
            raise ValueError("features must name the channels of at least one layer, got none.")
        images = z[..., None, None, :]
        sides = self._sides()
        for layer, width in enumerate((*self.features, self.channels)):
            check_at_least("channels and every entry of features", width, 1)
            images = _leaky_relu(images) if layer else images
            images = TransposedConvolution(
                width,
                kernel_size=4 if layer else max(sides[0]),
                stride=2 if layer else 1,
                padding="SAME" if layer else "VALID",
                lowering=self.lowering,
                dtype=self.dtype,
                kernel_init=self.kernel_init,
            )(images)
            if images.shape[-3:-1] != sides[layer]:
                images = images[..., : sides[layer][0], : sides[layer][1], :]
        return jnp.tanh(images.astype(jnp.float32))

    def _sides(self) -> list[tuple[int, int]]:
        """Returns the (H, W) that each layer makes."""
        whole = 4 * 2 ** len(self.features)
        sides = [(whole, whole) if self.image_size is None else self.image_size]
        for side in sides[0]:
            check_at_least("every entry of image_size", side, 1)
        for _ in self.features:
            height, width = sides[0]
            sides.insert(0, (-(-height // 2), -(-width // 2)))
        return sides


class DenseGenerator(nn.Module):
    """Dense layers from z (..., d) to images (..., *image_shape) in (-1, 1).

    The activation is swish, with tanh at the end. A step costs much less on a CPU than one of
    ``ConvGenerator``, whose other attributes it has.

    Attributes:
      hidden: widths of the layers but the last.
      image_shape: (H, W, channels).
    """

    hidden: Sequence[int]
    image_shape: tuple[int, ...]
    dtype: Any = None
    kernel_init: Initializer = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        x = z
        for width in self.hidden:
            x = nn.swish(nn.Dense(width, dtype=self.dtype, kernel_init=self.kernel_init)(x))
        x = nn.Dense(math.prod(self.image_shape), dtype=self.dtype, kernel_init=self.kernel_init)(x)
        return jnp.tanh(x.astype(jnp.float32)).reshape(*z.shape[:-1], *self.image_shape)


def _leaky_relu(x: jax.Array) -> jax.Array:
    """Computes ``flax.linen.leaky_relu`` with one selection in the backward pass instead of two."""
    return x * jnp.where(x >= 0, 1.0, LEAK)
