"""Transposed convolution as matrix products, or as XLA's own, and its layer."""

import functools
import math
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn.initializers import Initializer

from ebmjax.networks._convolution import (
    LAYOUT,
    Lowering,
    check_convolution,
    make_parameters,
)


class TransposedConvolution(nn.Module):
    """``convolve_transposed`` with learned ``kernel`` (size, size, I, O) and ``bias`` (O,).

    Parameters are float32, with the names and shapes of ``flax.linen.ConvTranspose``. Attributes
    are those of ``Convolution``, but ``stride`` enlarges the image, and ``kernel_init`` is LeCun
    normal as in Flax.
    """

    features: int
    kernel_size: int = 4
    stride: int = 2
    padding: Literal["SAME", "VALID"] = "SAME"
    lowering: Lowering | None = None
    dtype: Any = None
    kernel_init: Initializer = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        images, kernel, bias = make_parameters(self, images)
        # A lone pixel reaches each output pixel by one tap.
        is_stamp = images.shape[-3:-1] == (1, 1) and self.kernel_size >= self.stride
        takes_bias = is_stamp and _is_matmul(self.lowering)
        if takes_bias:
            images, kernel = _bias_as_channel(images, kernel, bias)
        out = convolve_transposed(
            images, kernel, stride=self.stride, padding=self.padding, lowering=self.lowering
        )
        return out if takes_bias else out + bias.reshape((1,) * (out.ndim - 1) + (-1,))


def _bias_as_channel(
    images: jax.Array, kernel: jax.Array, bias: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Adds an input channel of ones, whose weight is the bias.

    The sum is then part of the product. Otherwise XLA looks the bias up entry by entry in a
    separate loop: a fifth of the time of a thermo_digits chain on a CPU.
    """
    taps = jnp.broadcast_to(bias, (*kernel.shape[:2], 1, len(bias)))
    ones = jnp.ones((*images.shape[:-1], 1), images.dtype)
    return jnp.concatenate([images, ones], -1), jnp.concatenate([kernel, taps], 2)


def convolve_transposed(
    images: jax.Array,
    kernel: jax.Array,
    *,
    stride: int = 1,
    padding: Literal["SAME", "VALID"] = "SAME",
    lowering: Lowering | None = None,
) -> jax.Array:
    """Transposed convolution, as ``jax.lax.conv_transpose`` and ``flax.linen.ConvTranspose``.

    The kernel is not flipped: it is cross-correlated with the dilated input. So input pixel i adds
    ``kernel[size - 1 - j]`` to output pixel ``stride i + j - crop``.

    Args:
      images, kernel: as for ``convolve``; so is the result.
      stride: distance of neighbouring input pixels, in output pixels.
      padding: ``"SAME"`` (output exactly stride H) or ``"VALID"`` (output
        stride H + max(size - stride, 0), so a 1x1 image becomes size x size).
      lowering: ``"matmul"`` is one matrix product and shifted additions; ``"xla"`` is XLA's
        transposed convolution. None is matmul on the CPU backend, XLA elsewhere.
    """
    check_convolution(images, kernel, stride, padding, lowering)
    if _is_matmul(lowering):
        return _add_stamps(images, kernel, stride, padding)
    batch = images.reshape(-1, *images.shape[-3:])
    out = lax.conv_transpose(batch, kernel, (stride, stride), padding, dimension_numbers=LAYOUT)
    return out.reshape(*images.shape[:-3], *out.shape[1:])


def _is_matmul(lowering: Lowering | None) -> bool:
    """Returns whether ``lowering`` means matrix products on the current backend."""
    return jax.default_backend() == "cpu" if lowering is None else lowering == "matmul"


def _add_stamps(images: jax.Array, kernel: jax.Array, stride: int, padding: str) -> jax.Array:
    """Adds the stamps of size x size that the input pixels make."""
    size, _, channels, features = kernel.shape
    shape = [_transposed_size(n, size, stride, padding) for n in images.shape[-3:-1]]
    # One product, if it costs no more than making the stamps: for few features, XLA's additions on
    # a CPU took a sixth of the time of thermo_digits.
    has_overlap = math.prod(images.shape[-3:-1]) > 1
    if has_overlap and math.prod(shape) * features <= channels:
        return _product_add(images, kernel, stride, padding)
    return _overlap_add(images, kernel, stride, padding)


def _transposed_size(n: int, size: int, stride: int, padding: str) -> int:
    return stride * n + (max(size - stride, 0) if padding == "VALID" else 0)


def _product_add(images: jax.Array, kernel: jax.Array, stride: int, padding: str) -> jax.Array:
    """Adds all stamps of an image by a product with zeros and ones."""
    size, _, channels, features = kernel.shape
    first = max(size - stride, 0) // 2 if padding == "SAME" else 0

    def landing(n: int) -> np.ndarray:
        """Returns (n, size, output): one at the place of each entry of a pixel's stamp."""
        reached = stride * np.arange(n)[:, None] + np.arange(size) - first
        return reached[..., None] == np.arange(_transposed_size(n, size, stride, padding))

    rows, columns = (landing(n).astype(np.float32) for n in images.shape[-3:-1])
    matrix = np.einsum("hiy,wjx,op->hwijoyxp", rows, columns, np.eye(features, dtype=np.float32))
    shape = matrix.shape[-3:]
    stamp = kernel[::-1, ::-1].transpose(2, 0, 1, 3).reshape(channels, -1)
    stamps = (images @ stamp).reshape(*images.shape[:-3], -1)
    out = stamps @ jnp.asarray(matrix.reshape(-1, math.prod(shape)), stamps.dtype)
    return out.reshape(*images.shape[:-3], *shape)


def _overlap_add(images: jax.Array, kernel: jax.Array, stride: int, padding: str) -> jax.Array:
    """Adds the input pixels' stamps of size x size in blocks, by m * m shifted additions.

    Neighbouring stamps are ``stride`` apart, so stamps cut into ``m x m`` blocks of that side
    overlap in whole blocks. A lone pixel is one block.
    """
    size, _, channels, features = kernel.shape
    height, width = images.shape[-3:-1]
    block = stride if height * width > 1 else max(size, stride)
    m = math.ceil(size / block)

    fill = (0, m * block - size)
    stamp = jnp.pad(kernel[::-1, ::-1], [fill, fill, (0, 0), (0, 0)])
    stamp = stamp.reshape(m, block, m, block, channels, features).transpose(4, 0, 2, 1, 3, 5)
    stamps = images @ stamp.reshape(channels, -1)
    stamps = stamps.reshape(*images.shape[:-1], m, m, block * block * features)
    no_pads = [(0, 0)] * (images.ndim - 3)
    shifted = [
        jnp.pad(stamps[..., i, j, :], [*no_pads, (i, m - 1 - i), (j, m - 1 - j), (0, 0)])
        for i in range(m)
        for j in range(m)
    ]
    grid = functools.reduce(jnp.add, shifted)

    blocks = grid.reshape(*grid.shape[:-1], block, block, features)
    rows, columns = (block * n for n in grid.shape[-3:-1])
    full = jnp.swapaxes(blocks, -4, -3).reshape(*images.shape[:-3], rows, columns, features)
    overhang = max(size - stride, 0)
    first = overhang // 2 if padding == "SAME" else 0
    last = 0 if padding == "SAME" else overhang
    band = lax.slice_in_dim(full, first, first + stride * height + last, axis=-3)
    return lax.slice_in_dim(band, first, first + stride * width + last, axis=-2)
