"""Two-dimensional convolution as matrix products, or as XLA's own convolution, and its layer.

Parameters do not depend on how the convolution is computed.

On a CPU, XLA computes a convolution's derivative by a slow plain loop inside ``lax.scan`` and
``lax.while_loop``, where samplers run. Its library expects kernels in a forward pass's layout. So
derivatives are forward convolutions and products here (docs/networks.md).
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.dtypes import promote_dtype
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.nn.initializers import Initializer

from ebmjax._checks import check_at_least

Lowering = Literal["matmul", "xla"]
"""Way to compute a convolution: as matrix products, or by XLA's own operation."""
Pads = tuple[tuple[int, int], ...]

LAYOUT = ("NHWC", "HWIO", "NHWC")

FEW_CHANNELS = 8
FEW_PIXELS = 64
"""On a CPU, products are faster below 8 input channels and up to 8x8 pixels (docs/networks.md)."""

pytorch_uniform = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
"""Draws uniformly within 1/sqrt(fan_in), PyTorch's default for a convolution's weights."""


class Convolution(nn.Module):
    """``convolve`` with learned ``kernel`` (size, size, I, O) and ``bias`` (O,), in float32.

    The lowering changes neither parameters nor results, so a checkpoint moves between them.

    Attributes:
      features: number of output channels O.
      kernel_size: side of the square window.
      stride: step of the window along both axes.
      padding: ``"SAME"`` or ``"VALID"``.
      lowering: ``"matmul"``, ``"xla"``, or None for the faster one on the backend at hand.
      dtype: of the computation and the result; None promotes images and parameters.
      kernel_init: by default uniform within 1/sqrt(fan_in), as in PyTorch; biases start at zero.
    """

    features: int
    kernel_size: int = 3
    stride: int = 1
    padding: Literal["SAME", "VALID"] = "SAME"
    lowering: Lowering | None = None
    dtype: Any = None
    kernel_init: Initializer = pytorch_uniform

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        images, kernel, bias = make_parameters(self, images)
        out = convolve(
            images, kernel, stride=self.stride, padding=self.padding, lowering=self.lowering
        )
        return out + bias.reshape((1,) * (out.ndim - 1) + (-1,))


def make_parameters(module: Any, images: jax.Array) -> tuple[jax.Array, ...]:
    """Returns images, kernel and bias of a layer, in the dtype that it computes in."""
    for name in ("features", "kernel_size"):
        check_at_least(name, getattr(module, name), 1)
    shape = (module.kernel_size, module.kernel_size, images.shape[-1], module.features)
    kernel = module.param("kernel", module.kernel_init, shape)
    bias = module.param("bias", nn.initializers.zeros_init(), (module.features,))
    return tuple(promote_dtype(images, kernel, bias, dtype=module.dtype))


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
    check_convolution(images, kernel, stride, padding, lowering)
    size = kernel.shape[0]
    height, width = images.shape[-3:-1]
    if padding == "VALID" and min(height, width) < size:
        raise ValueError(
            f"images of {height}x{width} pixels are smaller than the {size}x{size} kernel."
        )
    pads = tuple(lax.padtype_to_pads((height, width), (size, size), (stride, stride), padding))
    is_small = size == 1 or images.shape[-1] < FEW_CHANNELS or height * width <= FEW_PIXELS
    is_on_cpu = jax.default_backend() == "cpu"
    if lowering == "matmul" or (lowering is None and is_small and is_on_cpu):
        return _product(images, kernel, stride, pads)
    batch = images.reshape(-1, *images.shape[-3:])
    out = (_convolve_on_cpu if is_on_cpu else _convolve)(batch, kernel, stride, pads)
    return out.reshape(*images.shape[:-3], *out.shape[1:])


def check_images(images: jax.Array) -> None:
    """Raises ValueError unless ``images`` is (..., H, W, channels) with at least one pixel."""
    if images.ndim < 3 or min(images.shape[-3:]) < 1:
        raise ValueError(
            "images must have shape (..., height, width, channels) with every one of the three at "
            f"least 1, got shape {images.shape}. A grey image needs a last axis: images[..., None]."
        )


def check_convolution(
    images: jax.Array, kernel: jax.Array, stride: int, padding: str, lowering: str | None
) -> None:
    """Raises ValueError unless ``convolve`` takes these arguments."""
    check_at_least("stride", stride, 1)
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
    """Multiplies each output pixel's window (..., H', W', size * size * I) by the kernel."""
    size = len(kernel)
    padded = jnp.pad(images, [(0, 0)] * (images.ndim - 3) + [*pads, (0, 0)])
    rows, columns = ((n - size) // stride + 1 for n in padded.shape[-3:-1])

    def shifted(i: int, j: int) -> jax.Array:
        band = lax.slice_in_dim(padded, i, i + stride * (rows - 1) + 1, stride, axis=-3)
        return lax.slice_in_dim(band, j, j + stride * (columns - 1) + 1, stride, axis=-2)

    taps = [shifted(i, j) for i in range(size) for j in range(size)]
    return jnp.concatenate(taps, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])
