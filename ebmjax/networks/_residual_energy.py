"""The residual energy network of implicit generation (IGEBM)."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_labels, check_positive
from ebmjax.networks._convolution import Convolution, Lowering, check_images
from ebmjax.networks._spectral_norm import cap_kernels
from ebmjax.types import PyTree

LEAK = 0.2


class ResidualEnergy(nn.Module):
    """Network from images (..., H, W, C), or one image (H, W, C), to energies (...,) in float32.

    It is a 3x3 convolution and activation, stages of residual blocks, the sum over all pixels, and
    a linear head. The first block of each stage halves the image by means over 2x2 pixels. No layer
    normalises activations, so an image's energy depends on that image alone. A block is
    ``activation(halve(x + conv(activation(conv(x)))))``, with a 3x3 convolution on x if the number
    of channels changes. Its second convolution starts at zero, so the network starts shallow. The
    other kernels start He normal, the head LeCun normal, biases at zero.

    **Spectral norm.** Every kernel except the head's is held below a limit by ``cap_kernels``.
    ``fold`` does so once for all steps of chains.

    **Classes.** With ``num_classes`` the energy is E(x, y) and the call takes labels. Each block
    adds a bias of the class to the input of its two convolutions and multiplies the second's output
    by a gain of the class. All classes start equal. A traced label out of range makes the energy
    NaN.

    Attributes:
      features: channels of each stage; the first also of the first convolution.
      depth: residual blocks in a stage.
      num_classes: number of classes; None for an energy of images alone.
      num_scales: networks that see the image, its means over 2x2, 4x4, ... pixels; energies add.
      spectral_norm: the limit; None leaves kernels as they are.
      activation: elementwise; leaky ReLU of slope 0.2. IGEBM takes swish for large images.
      lowering: of the convolutions, see ``Convolution``.
      dtype: of the computation up to the sum over pixels; then float32.

    The defaults are IGEBM's larger network for 32x32 images. ``features=(32, 64), depth=1`` suits
    8x8 digits.

    Source: Du & Mordatch 2019 (IGEBM); Du et al. 2021 for the scales.
    """

    features: Sequence[int] = (128, 256, 512)
    depth: int = 3
    num_classes: int | None = None
    num_scales: int = 1
    spectral_norm: float | None = 1.0
    activation: Callable[[jax.Array], jax.Array] = functools.partial(
        nn.leaky_relu, negative_slope=LEAK
    )
    lowering: Lowering | None = None
    dtype: Any = None

    def __post_init__(self) -> None:
        if not self.features:
            raise ValueError("features must name the channels of at least one stage, got none.")
        for width in self.features:
            check_at_least("every entry of features", width, 1)
        for name in ("depth", "num_scales"):
            check_at_least(name, getattr(self, name), 1)
        if self.num_classes is not None:
            check_at_least("num_classes", self.num_classes, 1)
        if self.spectral_norm is not None:
            check_positive("spectral_norm", self.spectral_norm)
        super().__post_init__()

    @nn.compact
    def __call__(self, images: jax.Array, labels: jax.Array | None = None) -> jax.Array:
        check_images(images)
        smallest = 2 ** (self.num_scales - 1 + len(self.features))
        if min(images.shape[-3:-1]) < smallest:
            raise ValueError(
                f"images must have at least {smallest} pixels a side for {len(self.features)} "
                f"features and num_scales={self.num_scales}, got shape {images.shape}."
            )
        _check_labels(labels, self.num_classes, images.shape[:-3])
        if labels is not None:  # labels of eight bits wrap round at 128 or 256 classes
            labels = jnp.asarray(labels, jnp.int32)
        is_capped = self.spectral_norm is not None and not self.is_initializing()
        network = nn.map_variables(
            ScaleEnergy,
            "params",
            (lambda params: cap_kernels(params, self.spectral_norm)) if is_capped else lambda p: p,
            init=self.is_initializing(),
        )
        names = ("features", "depth", "num_classes", "activation", "lowering", "dtype")
        shared = {name: getattr(self, name) for name in names}
        energy = jnp.zeros(images.shape[:-3], jnp.float32)
        for scale in range(self.num_scales):
            images = halve(images) if scale else images
            energy = energy + network(**shared, name=f"scale_{scale}")(images, labels)
        if labels is None or self.num_classes is None:
            return energy
        # A traced label cannot raise, and indexing would quietly take another class's gain.
        return jnp.where((labels >= 0) & (labels < self.num_classes), energy, jnp.nan)

    @nn.nowrap
    def fold(self, params: PyTree) -> tuple["ResidualEnergy", PyTree]:
        """Returns the same energy as a network without a limit, and parameters with capped kernels.

        Fold once a training step and run chains on the result: they then cost no more than without
        spectral normalisation. It is differentiable, so a loss may use it too.
        """
        if self.spectral_norm is None:
            return self, params
        return self.clone(spectral_norm=None), cap_kernels(params, self.spectral_norm)


class ScaleEnergy(nn.Module):
    """Energy of the images at one resolution; see ``ResidualEnergy``."""

    features: Sequence[int]
    depth: int
    num_classes: int | None
    activation: Callable[[jax.Array], jax.Array]
    lowering: Lowering | None
    dtype: Any

    @nn.compact
    def __call__(self, images: jax.Array, labels: jax.Array | None) -> jax.Array:
        convolution = functools.partial(
            Convolution,
            lowering=self.lowering,
            dtype=self.dtype,
            kernel_init=nn.initializers.he_normal(),
        )
        hidden = self.activation(convolution(self.features[0])(images))
        for features in self.features:
            for block in range(self.depth):
                hidden = EnergyBlock(
                    features, self.num_classes, self.activation, convolution, is_halved=block == 0
                )(hidden, labels)
        pooled = jnp.sum(hidden, axis=(-3, -2), dtype=jnp.float32)
        return nn.Dense(1, dtype=jnp.float32, name="head")(pooled)[..., 0]


class EnergyBlock(nn.Module):
    """Two convolutions and a shortcut, conditioned on the class; see ``ResidualEnergy``."""

    features: int
    num_classes: int | None
    activation: Callable[[jax.Array], jax.Array]
    convolution: Callable[..., Convolution]
    is_halved: bool

    @nn.compact
    def __call__(self, x: jax.Array, labels: jax.Array | None) -> jax.Array:
        y = self.convolution(self.features)(self._add_shift("bias_0", x, labels))
        y = self._add_shift("bias_1", self.activation(y), labels)
        y = self.convolution(self.features, kernel_init=nn.initializers.zeros_init())(y)
        if labels is not None:
            y = y * self._of_class("gain", nn.initializers.ones_init(), y, labels)
        if x.shape[-1] != self.features:
            x = self.convolution(self.features, name="shortcut")(x)
        return self.activation(halve(x + y) if self.is_halved else x + y)

    def _add_shift(self, name: str, x: jax.Array, labels: jax.Array | None) -> jax.Array:
        if labels is None:
            return x
        return x + self._of_class(name, nn.initializers.zeros_init(), x, labels)

    def _of_class(self, name: str, init: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
        """Returns the channels' parameters of each image's class, (..., 1, 1, channels)."""
        table = self.param(name, init, (self.num_classes, x.shape[-1]))
        return jnp.asarray(table)[labels][..., None, None, :].astype(x.dtype)


def halve(images: jax.Array) -> jax.Array:
    """Returns means over 2x2 pixels of (..., H, W, C); sides round up, as strides of SAME do.

    At the end of an odd side the mean is over the pixels that there are.
    """
    *leading, height, width, channels = images.shape
    if height % 2 or width % 2:
        pads = [(0, 0)] * len(leading) + [(0, height % 2), (0, width % 2), (0, 0)]
        images = jnp.pad(images, pads, mode="edge")
    quads = images.reshape(*leading, -(-height // 2), 2, -(-width // 2), 2, channels)
    return jnp.mean(quads, axis=(-4, -2))


def _check_labels(labels: Any, num_classes: int | None, shape: tuple[int, ...]) -> None:
    if (labels is None) != (num_classes is None):
        raise ValueError(
            "labels must be given where num_classes is, and only there: one energy is E(x, y), the "
            f"other E(x). Got {num_classes=} and {'no ' * (labels is None)}labels."
        )
    if num_classes is not None:
        check_labels("labels", labels, shape, num_classes)
