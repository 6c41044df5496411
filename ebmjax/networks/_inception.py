"""The Inception-v3 behind published FID, KID and inception scores: the graph of December 2015."""

import functools
from typing import Any, NamedTuple

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

Unit = tuple[str, int, int | tuple[int, int]] | tuple[str, int, int, int]
"""A convolution of a branch: its name, output channels, window, and perhaps a stride."""


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
    """Returns images (N, H, W, 3 or 1) uint8 as the 2015 graph sees them: 299x299x3, in [-1, 1).

    The graph resizes by TensorFlow 1's bilinear rule: output pixel i reads input position ``i * H /
    299``, counted from the corner, not from pixel centres, and without smoothing before shrinking.
    It then takes ``(x - 128) / 128``. PyTorch's and Pillow's resizing differ, which changes FID.
    """
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or min(images.shape) < 1:
        raise ValueError(
            f"images must have shape (N, H, W, 3), or (N, H, W, 1), got shape {images.shape}."
        )
    if images.dtype != jnp.uint8:
        raise TypeError(f"images must be uint8, as image files are, got dtype {images.dtype}.")
    resized = _interpolate(_interpolate(images.astype(jnp.float32), 2), 1)
    return jnp.broadcast_to((resized - 128) / 128, (*resized.shape[:3], 3))


def _interpolate(images: jax.Array, axis: int) -> jax.Array:
    size = images.shape[axis]
    # In float32 as in TensorFlow, so that positions fall on the same side of a pixel.
    position = np.arange(INPUT_SIZE, dtype=np.float32) * np.float32(size / INPUT_SIZE)
    below = np.minimum(np.floor(position).astype(np.int32), size - 1)
    above = np.minimum(below + 1, size - 1)
    weight = np.expand_dims(position - below, tuple(i for i in range(4) if i != axis))
    low = jnp.take(images, below, axis)
    return low + (jnp.take(images, above, axis) - low) * weight


class InceptionV3(nn.Module):
    """Inception-v3 as used for the FID of Heusel et al., for inference only.

    It differs from the paper's network, and torchvision's, in three ways: average pooling does not
    count the padding, the last block pools by the maximum, and there are 1008 classes. Modules have
    PyTorch's names, so a weight's name says where it belongs. Images come from
    ``inception_inputs``.

    Source: Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision"; the
    graph inception-2015-12-05 of TensorFlow; Heusel et al. 2017.
    """

    @nn.compact
    def __call__(self, images: jax.Array) -> InceptionOutputs:
        x = ConvolutionUnit(32, 3, stride=2, padding="VALID", name="Conv2d_1a_3x3")(images)
        x = ConvolutionUnit(32, 3, padding="VALID", name="Conv2d_2a_3x3")(x)
        x = ConvolutionUnit(64, 3, name="Conv2d_2b_3x3")(x)
        x = nn.max_pool(x, (3, 3), (2, 2))
        x = ConvolutionUnit(80, 1, name="Conv2d_3b_1x1")(x)
        x = ConvolutionUnit(192, 3, padding="VALID", name="Conv2d_4a_3x3")(x)
        x = nn.max_pool(x, (3, 3), (2, 2))
        blocks = {f"5{one}": _mixed_a(f) for one, f in zip("bcd", (32, 64, 64), strict=True)}
        blocks["6a"] = MIXED_B
        for letter, width in zip("bcde", (128, 160, 160, 192), strict=True):
            blocks[f"6{letter}"] = _mixed_c(width)
        blocks |= {"7a": MIXED_D, "7b": _mixed_e("average"), "7c": _mixed_e("max")}
        for name, branches in blocks.items():
            x = Mixed(branches, name=f"Mixed_{name}")(x)
        features = x.mean((1, 2))
        logits = nn.Dense(CLASSES, use_bias=False, precision=PRECISION, name="fc")(features)
        return InceptionOutputs(features, logits)


class ConvolutionUnit(nn.Module):
    """Convolution without bias, normalisation by stored statistics (epsilon 1e-3), ReLU."""

    features: int
    kernel_size: int | tuple[int, int]
    stride: int = 1
    padding: str = "SAME"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(
            self.features,
            tuple(np.broadcast_to(self.kernel_size, 2).tolist()),
            strides=self.stride,
            padding=self.padding,
            use_bias=False,
            precision=PRECISION,
            name="conv",
        )(x)
        return nn.relu(nn.BatchNorm(use_running_average=True, epsilon=1e-3, name="bn")(x))


class Mixed(nn.Module):
    """Block of parallel branches, whose channels are concatenated.

    A branch is a sequence of steps: a ``Unit``, "average", "max" or "halve" for pooling, or further
    branches.
    """

    branches: tuple[Any, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return _fork(x, self.branches)


def _fork(x: jax.Array, branches: tuple[Any, ...]) -> jax.Array:
    return jnp.concatenate([functools.reduce(_step, branch, x) for branch in branches], axis=-1)


def _step(x: jax.Array, step: Any) -> jax.Array:
    if step == "average":
        return nn.avg_pool(x, (3, 3), (1, 1), "SAME", count_include_pad=False)
    if step == "max":
        return nn.max_pool(x, (3, 3), (1, 1), "SAME")
    if step == "halve":
        return nn.max_pool(x, (3, 3), (2, 2))
    if not isinstance(step[0], str):
        return _fork(x, step)
    name, *unit = step  # a unit with a stride leaves the border out
    return ConvolutionUnit(*unit, padding="VALID" if unit[2:] else "SAME", name=name)(x)


def _mixed_a(pool_features: int) -> tuple[Any, ...]:
    """Returns the branches of a 35x35 block, of which one has a 5x5 window."""
    return (
        (("branch1x1", 64, 1),),
        (("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)),
        (("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)),
        ("average", ("branch_pool", pool_features, 1)),
    )


# From 35x35 to 17x17.
MIXED_B = (
    (("branch3x3", 384, 3, 2),),
    (("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3, 2)),
    ("halve",),
)
ROW, COLUMN = (1, 7), (7, 1)


def _mixed_c(width: int) -> tuple[Any, ...]:
    """Returns the branches of a 17x17 block with 7x7 windows factored into a row and a column."""
    double = [(f"branch7x7dbl_{i}", width, (ROW, COLUMN)[i % 2 == 0]) for i in (2, 3, 4)]
    return (
        (("branch1x1", 192, 1),),
        (("branch7x7_1", width, 1), ("branch7x7_2", width, ROW), ("branch7x7_3", 192, COLUMN)),
        (("branch7x7dbl_1", width, 1), *double, ("branch7x7dbl_5", 192, ROW)),
        ("average", ("branch_pool", 192, 1)),
    )


# From 17x17 to 8x8.
WINDOWS = ((1,), (ROW,), (COLUMN,), (3, 2))
MIXED_D = (
    (("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3, 2)),
    tuple((f"branch7x7x3_{i}", 192, *window) for i, window in enumerate(WINDOWS, start=1)),
    ("halve",),
)


def _mixed_e(pool: str) -> tuple[Any, ...]:
    """Returns the branches of an 8x8 block whose 3x3 windows end in a row beside a column."""

    def both(name: str) -> tuple[Any, ...]:
        return ((f"{name}a", 384, (1, 3)),), ((f"{name}b", 384, (3, 1)),)

    return (
        (("branch1x1", 320, 1),),
        (("branch3x3_1", 384, 1), both("branch3x3_2")),
        (("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3), both("branch3x3dbl_3")),
        (pool, ("branch_pool", 192, 1)),
    )
