"""The Inception-v3 behind published FID, KID and inception scores: the graph of December 2015."""

from typing import Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

FEATURES = 2048
CLASSES = 1008
INPUT_SIZE = 299
SMALLEST_SIZE = 75
# A GPU's or TPU's default rounding is as large as differences between papers.
PRECISION = jax.lax.Precision.HIGHEST

Unit = tuple[str, int, int | tuple[int, int]]
"""A convolution of a branch: its name, its output channels, its window."""


class InceptionOutputs(NamedTuple):
    """Outputs that the metrics of generated images need, one row an image.

    Attributes:
      features: (N, 2048), averages over the last grid ("pool_3"), for FID and KID.
      logits: (N, 1008), for the inception score. The original score leaves out the last layer's
        bias, as do published numbers since; these logits have no bias either.
    """

    features: jax.Array
    logits: jax.Array


def inception_inputs(images: jax.Array) -> jax.Array:
    """Returns images as the 2015 graph sees them: 299x299, in [-1, 1).

    The graph resizes by TensorFlow 1's bilinear rule: output pixel i reads input position ``i * H /
    299``, counted from the corner, not from pixel centres, and without smoothing before shrinking.
    It then takes ``(x - 128) / 128``. PyTorch's and Pillow's resizing differ, which changes FID.

    Args:
      images: (N, H, W, C) uint8, C = 3, or 1 for grey, which is repeated.

    Returns:
      (N, 299, 299, 3) float32.

    Example:
      >>> inception_inputs(jnp.full((1, 8, 8, 1), 192, jnp.uint8))[0, 0, 0].tolist()
      [0.5, 0.5, 0.5]
    """
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or min(images.shape) < 1:
        raise ValueError(
            f"images must have shape (N, H, W, 3), or (N, H, W, 1), got shape {images.shape}."
        )
    if images.dtype != jnp.uint8:
        raise TypeError(
            f"images must be uint8, as image files are, got dtype {images.dtype}. From [0, 1]: "
            "jnp.round(255 * jnp.clip(images, 0, 1)).astype(jnp.uint8)."
        )
    resized = _interpolate(_interpolate(images.astype(jnp.float32), 2), 1)
    return jnp.broadcast_to((resized - 128) / 128, (*resized.shape[:3], 3))


def _interpolate(images: jax.Array, axis: int) -> jax.Array:
    size = images.shape[axis]
    # In float32 as in TensorFlow, so that positions fall on the same side of a pixel.
    position = np.arange(INPUT_SIZE, dtype=np.float32) * np.float32(size / INPUT_SIZE)
    below = np.minimum(np.floor(position).astype(np.int32), size - 1)
    above = np.minimum(below + 1, size - 1)
    weight = np.expand_dims(position - below, [i for i in range(4) if i != axis])
    low = jnp.take(images, below, axis)
    return low + (jnp.take(images, above, axis) - low) * weight


class InceptionV3(nn.Module):
    """Inception-v3 as used for the FID of Heusel et al., for inference only.

    It differs from the paper's network, and torchvision's, in three ways: average pooling does not
    count the padding, the last block pools by the maximum, and there are 1008 classes. Modules have
    PyTorch's names, so a weight's name says where it belongs.

    Call:
      ``apply(variables, images)``: (N, H, W, 3) floats from ``inception_inputs``, at least 75x75,
      to ``InceptionOutputs``.

    Source: Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision"; the
    graph inception-2015-12-05 of TensorFlow; Heusel et al. 2017.
    """

    @nn.compact
    def __call__(self, images: jax.Array) -> InceptionOutputs:
        if images.ndim != 4 or images.shape[-1] != 3 or min(images.shape[1:3]) < SMALLEST_SIZE:
            raise ValueError(
                f"images must have shape (N, H, W, 3) with H and W of at least {SMALLEST_SIZE}, "
                f"got shape {images.shape}; inception_inputs prepares them."
            )
        x = ConvolutionUnit(32, 3, stride=2, padding="VALID", name="Conv2d_1a_3x3")(images)
        x = ConvolutionUnit(32, 3, padding="VALID", name="Conv2d_2a_3x3")(x)
        x = ConvolutionUnit(64, 3, name="Conv2d_2b_3x3")(x)
        x = nn.max_pool(x, (3, 3), (2, 2))
        x = ConvolutionUnit(80, 1, name="Conv2d_3b_1x1")(x)
        x = ConvolutionUnit(192, 3, padding="VALID", name="Conv2d_4a_3x3")(x)
        x = nn.max_pool(x, (3, 3), (2, 2))
        for letter, pool_features in zip("bcd", (32, 64, 64), strict=True):
            x = MixedA(pool_features, name=f"Mixed_5{letter}")(x)
        x = MixedB(name="Mixed_6a")(x)
        for letter, width in zip("bcde", (128, 160, 160, 192), strict=True):
            x = MixedC(width, name=f"Mixed_6{letter}")(x)
        x = MixedD(name="Mixed_7a")(x)
        x = MixedE("average", name="Mixed_7b")(x)
        x = MixedE("max", name="Mixed_7c")(x)
        features = x.mean((1, 2))
        logits = nn.Dense(CLASSES, use_bias=False, precision=PRECISION, name="fc")(features)
        return InceptionOutputs(features, logits)


class ConvolutionUnit(nn.Module):
    """Convolution without bias, normalisation by stored statistics (epsilon 1e-3), ReLU."""

    features: int
    kernel_size: int | tuple[int, int]
    stride: int = 1
    padding: Literal["SAME", "VALID"] = "SAME"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        size = self.kernel_size
        x = nn.Conv(
            self.features,
            (size, size) if isinstance(size, int) else size,
            strides=self.stride,
            padding=self.padding,
            use_bias=False,
            precision=PRECISION,
            name="conv",
        )(x)
        return nn.relu(nn.BatchNorm(use_running_average=True, epsilon=1e-3, name="bn")(x))


class MixedA(nn.Module):
    """35x35 block with a 5x5 branch."""

    pool_features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        double = ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)
        return _concatenate(
            _chain(x, ("branch1x1", 64, 1)),
            _chain(x, ("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)),
            _chain(x, ("branch3x3dbl_1", 64, 1), *double),
            _chain(_average_pool(x), ("branch_pool", self.pool_features, 1)),
        )


class MixedB(nn.Module):
    """Block from 35x35 to 17x17."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        double = _chain(x, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3))
        return _concatenate(
            _halve(x, "branch3x3", 384),
            _halve(double, "branch3x3dbl_3", 96),
            nn.max_pool(x, (3, 3), (2, 2)),
        )


class MixedC(nn.Module):
    """17x17 block with 7x7 windows factored into a row and a column."""

    width: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        row, column, width = (1, 7), (7, 1), self.width
        return _concatenate(
            _chain(x, ("branch1x1", 192, 1)),
            _chain(
                x,
                ("branch7x7_1", width, 1),
                ("branch7x7_2", width, row),
                ("branch7x7_3", 192, column),
            ),
            _chain(
                x,
                ("branch7x7dbl_1", width, 1),
                ("branch7x7dbl_2", width, column),
                ("branch7x7dbl_3", width, row),
                ("branch7x7dbl_4", width, column),
                ("branch7x7dbl_5", 192, row),
            ),
            _chain(_average_pool(x), ("branch_pool", 192, 1)),
        )


class MixedD(nn.Module):
    """Block from 17x17 to 8x8."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        seven = _chain(
            x,
            ("branch7x7x3_1", 192, 1),
            ("branch7x7x3_2", 192, (1, 7)),
            ("branch7x7x3_3", 192, (7, 1)),
        )
        return _concatenate(
            _halve(_chain(x, ("branch3x3_1", 192, 1)), "branch3x3_2", 320),
            _halve(seven, "branch7x7x3_4", 192),
            nn.max_pool(x, (3, 3), (2, 2)),
        )


class MixedE(nn.Module):
    """8x8 block whose 3x3 windows end in a row beside a column."""

    pool: Literal["average", "max"]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        is_average = self.pool == "average"
        pooled = _average_pool(x) if is_average else nn.max_pool(x, (3, 3), (1, 1), "SAME")
        single = _chain(x, ("branch3x3_1", 384, 1))
        double = _chain(x, ("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3))
        return _concatenate(
            _chain(x, ("branch1x1", 320, 1)),
            _chain(single, ("branch3x3_2a", 384, (1, 3))),
            _chain(single, ("branch3x3_2b", 384, (3, 1))),
            _chain(double, ("branch3x3dbl_3a", 384, (1, 3))),
            _chain(double, ("branch3x3dbl_3b", 384, (3, 1))),
            _chain(pooled, ("branch_pool", 192, 1)),
        )


def _chain(x: jax.Array, *units: Unit) -> jax.Array:
    """Applies the units one after the other, as submodules of the calling module."""
    for name, features, kernel_size in units:
        x = ConvolutionUnit(features, kernel_size, name=name)(x)
    return x


def _halve(x: jax.Array, name: str, features: int) -> jax.Array:
    return ConvolutionUnit(features, 3, stride=2, padding="VALID", name=name)(x)


def _average_pool(x: jax.Array) -> jax.Array:
    return nn.avg_pool(x, (3, 3), (1, 1), "SAME", count_include_pad=False)


def _concatenate(*branches: jax.Array) -> jax.Array:
    return jnp.concatenate(branches, axis=-1)
