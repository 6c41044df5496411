"""Convolution layers whose parameters do not depend on how the convolution is computed."""

from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.dtypes import promote_dtype
from jax.nn.initializers import Initializer

from ebmjax._checks import check_at_least
from ebmjax.networks._convolve import (
    Lowering,
    check_images,
    convolve,
    convolve_transposed,
    is_matmul,
)

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
        images, kernel, bias = _parameters(self, images)
        out = convolve(
            images, kernel, stride=self.stride, padding=self.padding, lowering=self.lowering
        )
        return _add_bias(out, bias)


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
        images, kernel, bias = _parameters(self, images)
        # A lone pixel reaches each output pixel by one tap.
        is_stamp = images.shape[-3:-1] == (1, 1) and self.kernel_size >= self.stride
        takes_bias = is_stamp and is_matmul(self.lowering)
        if takes_bias:
            images, kernel = _bias_as_channel(images, kernel, bias)
        out = convolve_transposed(
            images, kernel, stride=self.stride, padding=self.padding, lowering=self.lowering
        )
        return out if takes_bias else _add_bias(out, bias)


def _parameters(
    module: Convolution | TransposedConvolution, images: jax.Array
) -> tuple[jax.Array, ...]:
    """Returns images, kernel and bias of ``module``, in the dtype it computes in."""
    for name in ("features", "kernel_size"):
        check_at_least(name, getattr(module, name), 1)
    check_images(images)
    shape = (module.kernel_size, module.kernel_size, images.shape[-1], module.features)
    kernel = module.param("kernel", module.kernel_init, shape)
    bias = module.param("bias", nn.initializers.zeros_init(), (module.features,))
    return tuple(promote_dtype(images, kernel, bias, dtype=module.dtype))


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


def _add_bias(out: jax.Array, bias: jax.Array) -> jax.Array:
    return out + bias.reshape((1,) * (out.ndim - 1) + (-1,))
