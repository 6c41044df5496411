"""Two-dimensional convolution as matrix products, or as XLA's own convolution.

On a CPU, XLA computes a convolution's derivative by a slow plain loop inside ``lax.scan`` and
``lax.while_loop``, where samplers run. Its library expects kernels in a forward pass's layout. So
derivatives are forward convolutions and products here (docs/networks.md).
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from ebmjax._checks import check_at_least

Lowering = Literal["matmul", "xla"]
"""Way to compute a convolution: as matrix products, or by XLA's own operation."""
Pads = tuple[tuple[int, int], ...]

LAYOUT = ("NHWC", "HWIO", "NHWC")

FEW_CHANNELS = 8
FEW_PIXELS = 64
"""On a CPU, products are faster below 8 input channels and up to 8x8 pixels (docs/networks.md)."""


def convolve(
    images: jax.Array,
    kernel: jax.Array,
    *,
    stride: int = 1,
    padding: Literal["SAME", "VALID"] = "SAME",
    lowering: Lowering | None = None,
) -> jax.Array:
    """Cross-correlates ``images`` with ``kernel``, as ``jax.lax.conv_general_dilated`` does.

    Args:
      images: (..., H, W, I), with any leading axes or none.
      kernel: (size, size, I, O).
      stride: step of the window along both axes.
      padding: ``"SAME"`` (output ceil(H / stride), as XLA pads: the odd pixel at the end) or
        ``"VALID"``.
      lowering: ``"matmul"`` gathers patches by shifted slices for one matrix product; ``"xla"`` is
        XLA's convolution. None is XLA, but on the CPU backend it is matmul for 1x1 kernels, for
        fewer than 8 input channels and for up to 8x8 pixels. It is decided when traced.
    """
    check_at_least("stride", stride, 1)
    _check(images, kernel, padding, lowering)
    size = kernel.shape[0]
    height, width = images.shape[-3:-1]
    if padding == "VALID" and min(height, width) < size:
        raise ValueError(
            f"images of {height}x{width} pixels are smaller than the {size}x{size} kernel."
        )
    pads = tuple(lax.padtype_to_pads((height, width), (size, size), (stride, stride), padding))
    is_small = size == 1 or images.shape[-1] < FEW_CHANNELS or height * width <= FEW_PIXELS
    if lowering == "matmul" or (lowering is None and is_small and _is_on_cpu()):
        return _product(images, kernel, stride, pads)
    batch = images.reshape(-1, *images.shape[-3:])
    out = (_convolve_on_cpu if _is_on_cpu() else _convolve)(batch, kernel, stride, pads)
    return out.reshape(*images.shape[:-3], *out.shape[1:])


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
    check_at_least("stride", stride, 1)
    _check(images, kernel, padding, lowering)
    if is_matmul(lowering):
        return _add_stamps(images, kernel, stride, padding)
    batch = images.reshape(-1, *images.shape[-3:])
    out = lax.conv_transpose(batch, kernel, (stride, stride), padding, dimension_numbers=LAYOUT)
    return out.reshape(*images.shape[:-3], *out.shape[1:])


def check_images(images: jax.Array) -> None:
    """Raises ValueError unless ``images`` is (..., H, W, channels) with at least one pixel."""
    if images.ndim < 3 or min(images.shape[-3:]) < 1:
        raise ValueError(
            "images must have shape (..., height, width, channels) with every one of the three at "
            f"least 1, got shape {images.shape}. A grey image needs a last axis: images[..., None]."
        )


def _check(images: jax.Array, kernel: jax.Array, padding: str, lowering: str | None) -> None:
    check_images(images)
    if kernel.ndim != 4 or kernel.shape[0] != kernel.shape[1]:
        raise ValueError(f"kernel must have shape (size, size, I, O), got shape {kernel.shape}.")
    if kernel.shape[2] != images.shape[-1]:
        raise ValueError(
            f"images have {images.shape[-1]} channels but the kernel of shape {kernel.shape} takes "
            f"{kernel.shape[2]}."
        )
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'SAME' or 'VALID', got padding={padding!r}.")
    if lowering not in (None, *get_args(Lowering)):
        raise ValueError(f"lowering must be 'matmul', 'xla' or None, got lowering={lowering!r}.")


def is_matmul(lowering: Lowering | None) -> bool:
    """Returns whether ``lowering`` means matrix products on the current backend."""
    return _is_on_cpu() if lowering is None else lowering == "matmul"


def _is_on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _convolve(images: jax.Array, kernel: jax.Array, stride: int, pads: Pads) -> jax.Array:
    return lax.conv_general_dilated(
        images, kernel, (stride, stride), pads, dimension_numbers=LAYOUT
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _convolve_on_cpu(images: jax.Array, kernel: jax.Array, stride: int, pads: Pads) -> jax.Array:
    return _convolve(images, kernel, stride, pads)


@functools.partial(_convolve_on_cpu.defjvp, symbolic_zeros=True)
def _convolve_jvp(
    stride: int,
    pads: Pads,
    primals: tuple[jax.Array, jax.Array],
    tangents: tuple[Any, Any],
) -> tuple[jax.Array, jax.Array]:
    """Differentiates so that JAX's transposition gives the backward passes that are fast.

    The tangent by the images is the transpose of ``_image_gradient``, whose transpose is what a
    gradient runs. The tangent by the kernel is a matrix product, and so is its transpose. A zero
    tangent has no array: that of a kernel on a mesh cannot be made inside ``jax.shard_map``.
    """
    images, kernel = primals
    out = _convolve_on_cpu(images, kernel, stride, pads)
    parts = []
    if not isinstance(tangents[0], SymbolicZero):
        gradient = functools.partial(
            _image_gradient, kernel=kernel, stride=stride, pads=pads, shape=images.shape[1:3]
        )
        parts += jax.linear_transpose(gradient, out)(tangents[0])
    if not isinstance(tangents[1], SymbolicZero):
        parts.append(_product(images, tangents[1], stride, pads))
    return out, sum(parts[1:], start=parts[0])


def _image_gradient(
    cotangent: jax.Array, kernel: jax.Array, stride: int, pads: Pads, shape: Sequence[int]
) -> jax.Array:
    """Transposes ``_convolve`` by images (B, *shape, I), as one convolution for each phase.

    A phase is the set of input pixels (stride q + r, stride p + s): the same taps of the kernel
    reach all of them. The cotangent is (B, H', W', O).
    """
    counts = [-(-n // stride) for n in shape]

    def phase(*offsets: int) -> jax.Array:
        starts = [(r + low) % stride for r, (low, _) in zip(offsets, pads, strict=True)]
        taps = kernel[starts[0] :: stride, starts[1] :: stride]
        if not taps.size:
            return jnp.zeros((len(cotangent), *counts, kernel.shape[2]), cotangent.dtype)
        around = []
        for axis, (r, start) in enumerate(zip(offsets, starts, strict=True)):
            shift = (r + pads[axis][0] - start) // stride
            before = taps.shape[axis] - 1 - shift
            around.append((before, counts[axis] + shift - cotangent.shape[1 + axis]))
        # Without the barrier XLA folds the transposition into the slow layout of a backward pass.
        flipped = lax.optimization_barrier(taps[::-1, ::-1].swapaxes(2, 3))
        return _convolve(cotangent, flipped, 1, tuple(around))

    rows = [jnp.stack([phase(r, s) for s in range(stride)], 3) for r in range(stride)]
    images = jnp.stack(rows, 2)  # (B, H / stride, stride, W / stride, stride, I)
    height, width = (stride * n for n in counts)
    images = images.reshape(len(cotangent), height, width, kernel.shape[2])
    return images[:, : shape[0], : shape[1]]


def _product(images: jax.Array, kernel: jax.Array, stride: int, pads: Pads) -> jax.Array:
    return _patches(images, kernel.shape[0], stride, pads) @ kernel.reshape(-1, kernel.shape[-1])


def _pad(images: jax.Array, rows: tuple[int, int], columns: tuple[int, int]) -> jax.Array:
    """Pads the height and width of (..., H, W, C) with zeros."""
    return jnp.pad(images, [(0, 0)] * (images.ndim - 3) + [rows, columns, (0, 0)])


def _patches(images: jax.Array, size: int, stride: int, pads: Pads) -> jax.Array:
    """Returns (..., H', W', size * size * I): each output pixel's window, in the kernel's order."""
    padded = _pad(images, *pads)
    rows, columns = ((n - size) // stride + 1 for n in padded.shape[-3:-1])

    def shifted(i: int, j: int) -> jax.Array:
        band = lax.slice_in_dim(padded, i, i + stride * (rows - 1) + 1, stride, axis=-3)
        return lax.slice_in_dim(band, j, j + stride * (columns - 1) + 1, stride, axis=-2)

    taps = [shifted(i, j) for i in range(size) for j in range(size)]
    return jnp.concatenate(taps, axis=-1)


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
    shifted = [
        _pad(stamps[..., i, j, :], (i, m - 1 - i), (j, m - 1 - j))
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
