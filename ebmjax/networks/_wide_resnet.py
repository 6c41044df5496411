"""The wide residual network of JEM and its successors."""

from functools import partial
from typing import Any, Literal, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.networks._convolution import Convolution
from ebmjax.networks._convolve import Lowering, check_images

Norm = Literal["group"]

LEAK = 0.2
NUM_GROUPS = 8
PIXELS_AND_CHANNELS = (-3, -2, -1)


class WideResNet(nn.Module):
    """Images (..., H, W, C), or one image (H, W, C), to logits (..., num_classes) in float32.

    WRN-d-w with d = 6n + 4: a 3x3 convolution to 16 channels, three stages of n pre-activation
    blocks with 16w, 32w and 64w channels at strides 1, 2 and 2, leaky ReLU of slope 0.2, global
    average, linear layer. Every convolution has a bias. As in JEM's code the second convolution
    of a block carries the stride, and the 1x1 shortcut, present where the shape changes, takes
    the block's input before its activation. As an energy, E(x) = -logsumexp(logits) and
    E(x, y) = -logits[y].

    Convolutions start uniform within 1/sqrt(fan_in), the PyTorch default that JEM relies on: the
    residual branches are quiet at the start, which a deep network without normalisation needs.
    The linear layer starts LeCun normal, biases at zero.

    Attributes:
      depth: d, one of 10, 16, 22, 28, ...
      widen_factor: w.
      num_classes: number of logits.
      norm: None (JEM), or ``"group"`` for group normalisation (8 groups) before each activation,
        which has no running statistics, so an example's logits depend on it alone.
      lowering: of the convolutions, see ``Convolution``.
      dtype: of the computation up to the global average; from there on float32.

    Raises:
      ValueError: when built with a depth that is not 6n + 4, sizes below one or an unknown norm;
        when called on images without channels.

    Source: Zagoruyko & Komodakis 2016; Grathwohl et al. 2020 (JEM).

    Example:
      >>> network = WideResNet(depth=10, widen_factor=1, num_classes=10)
      >>> params = network.init(jax.random.key(0), jnp.zeros((8, 8, 1)))
      >>> network.apply(params, jnp.zeros((5, 8, 8, 1))).shape
      (5, 10)
    """

    depth: int
    widen_factor: int
    num_classes: int
    norm: Norm | None = None
    lowering: Lowering | None = None
    dtype: Any = None

    def __post_init__(self) -> None:
        check_at_least("depth", self.depth, 10)
        if (self.depth - 4) % 6:
            raise ValueError(f"depth must be 6n + 4 (10, 16, 22, 28, ...), got depth={self.depth}.")
        check_at_least("widen_factor", self.widen_factor, 1)
        check_at_least("num_classes", self.num_classes, 1)
        if self.norm not in (None, *get_args(Norm)):
            raise ValueError(f"norm must be None or 'group', got norm={self.norm!r}.")
        super().__post_init__()

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        check_images(images)
        x = Convolution(16, lowering=self.lowering, dtype=self.dtype)(images)
        for stage in range(3):
            for block in range((self.depth - 4) // 6):
                x = ResidualBlock(
                    features=16 * 2**stage * self.widen_factor,
                    stride=2 if stage and not block else 1,
                    norm=self.norm,
                    lowering=self.lowering,
                    dtype=self.dtype,
                )(x)
        x = _activate(x, self.norm, self.dtype)
        features = jnp.mean(x, axis=(-3, -2), dtype=jnp.float32)
        return nn.Dense(self.num_classes, dtype=jnp.float32)(features)


class ResidualBlock(nn.Module):
    """Twice (norm, leaky ReLU, 3x3 convolution), added to the input; see ``WideResNet``."""

    features: int
    stride: int
    norm: Norm | None
    lowering: Lowering | None
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        convolution = partial(Convolution, self.features, lowering=self.lowering, dtype=self.dtype)
        y = convolution()(_activate(x, self.norm, self.dtype))
        y = convolution(stride=self.stride)(_activate(y, self.norm, self.dtype))
        if x.shape != y.shape:
            x = convolution(kernel_size=1, stride=self.stride, name="shortcut")(x)
        return x + y


def _activate(x: jax.Array, norm: Norm | None, dtype: Any) -> jax.Array:
    if norm == "group":
        x = nn.GroupNorm(NUM_GROUPS, epsilon=1e-5, reduction_axes=PIXELS_AND_CHANNELS, dtype=dtype)(
            x
        )
    return nn.leaky_relu(x, LEAK)
