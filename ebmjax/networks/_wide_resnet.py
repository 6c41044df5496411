"""The wide residual network of JEM and its successors."""

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.networks._convolution import Convolution, Lowering
from ebmjax.networks._network import Statistics, check_statistics
from ebmjax.types import AxisName

LEAK = 0.2
NUM_GROUPS = 8
PIXELS_AND_CHANNELS = (-3, -2, -1)
EPSILON = 1e-5
# Flax weighs the old average with it: running = 0.1 running + 0.9 batch. PyTorch weighs the batch,
# so JEM++'s and SADA-JEM's code calls it momentum 0.9.
MOMENTUM = 0.1
AVERAGES, CAPTURED = "batch_stats", "intermediates"


class WideResNet(nn.Module):
    """Network from images (..., H, W, C), or one image, to logits (..., num_classes) in float32.

    It is WRN-d-w with d = 6n + 4. A 3x3 convolution makes 16 channels; three stages of n
    pre-activation blocks have 16w, 32w and 64w channels at strides 1, 2 and 2. Leaky ReLU of slope
    0.2, global average and a linear layer follow. Every convolution has a bias. As in JEM's code,
    the second convolution of a block has the stride. A 1x1 shortcut, used if the shape changes,
    takes the block's input before its activation.

    The call is ``head(first_layer(images))``: the first convolution, which PYLD uses, and the rest.
    Method ``features`` returns the linear layer's inputs. ``statistics="batch"`` normalises by
    these images instead of the running averages, and updates these (``mutable=["batch_stats"]``).

    Attributes:
      depth: d, one of 10, 16, 22, 28, ...
      widen_factor: w.
      num_classes: number of logits.
      norm: normalisation before each activation. None is JEM's. ``"group"`` (8 groups) has no
        running statistics, so an example's logits depend on it alone. ``"batch"`` (JEM++, SADA-JEM)
        keeps averages in the collection ``batch_stats``: running = 0.1 running + 0.9 batch.
      lowering: of the convolutions, see ``Convolution``.
      dtype: of the computation up to the global average; then float32.
      batch_axis: names of mapped axes (``jax.vmap(..., axis_name="chains")``) over which batch
        statistics are also averaged.

    Source: Zagoruyko & Komodakis 2016; Grathwohl et al. 2020 (JEM).
    """

    depth: int
    widen_factor: int
    num_classes: int
    norm: Literal["batch", "group"] | None = None
    lowering: Lowering | None = None
    dtype: Any = None
    batch_axis: AxisName = None

    def __post_init__(self) -> None:
        check_at_least("depth", self.depth, 10)
        if (self.depth - 4) % 6:
            raise ValueError(f"depth must be 6n + 4 (10, 16, 22, 28, ...), got depth={self.depth}.")
        check_at_least("widen_factor", self.widen_factor, 1)
        check_at_least("num_classes", self.num_classes, 1)
        if self.norm not in (None, "batch", "group"):
            raise ValueError(f"norm must be None, 'batch' or 'group', got norm={self.norm!r}.")
        super().__post_init__()

    def setup(self) -> None:
        # Attribute names become parameter names (a list's get an index), which checkpoints contain.
        self.Convolution_0 = Convolution(16, lowering=self.lowering, dtype=self.dtype)
        self.ResidualBlock = [
            ResidualBlock(
                features=16 * 2**stage * self.widen_factor,
                stride=2 if stage and not block else 1,
                norm=self.norm,
                lowering=self.lowering,
                dtype=self.dtype,
                batch_axis=self.batch_axis,
            )
            for stage in range(3)
            for block in range((self.depth - 4) // 6)
        ]
        self.Dense_0 = nn.Dense(self.num_classes, dtype=jnp.float32)

    def __call__(self, images: jax.Array, *, statistics: Statistics = "running") -> jax.Array:
        return self.head(self.first_layer(images), statistics=statistics)

    def first_layer(self, images: jax.Array) -> jax.Array:
        """Applies the first convolution: images (..., H, W, C) to (..., H, W, 16)."""
        return self.Convolution_0(images)

    def head(self, hidden: jax.Array, *, statistics: Statistics = "running") -> jax.Array:
        """Applies the rest: (..., H, W, 16) to logits (..., num_classes)."""
        return self.Dense_0(self._pool_hidden(hidden, statistics))

    def features(self, images: jax.Array, *, statistics: Statistics = "running") -> jax.Array:
        """Returns the linear layer's inputs (..., 64 widen_factor) in float32."""
        return self._pool_hidden(self.first_layer(images), statistics)

    @nn.compact
    def _pool_hidden(self, hidden: jax.Array, statistics: Statistics) -> jax.Array:
        check_statistics("statistics", statistics)
        num_blocks = len(self.ResidualBlock) // 3
        for stage in range(3):
            blocks = self.ResidualBlock[stage * num_blocks :][:num_blocks]
            for equal in (blocks[:1], blocks[1:]):
                hidden = _in_turn(equal, hidden, statistics)
        hidden = _activate(self, hidden, statistics)
        return jnp.mean(hidden, axis=(-3, -2), dtype=jnp.float32)


class ResidualBlock(nn.Module):
    """Adds twice (norm, leaky ReLU, 3x3 convolution) to the input; see ``WideResNet``."""

    features: int
    stride: int
    norm: Literal["batch", "group"] | None
    lowering: Lowering | None
    dtype: Any
    batch_axis: AxisName

    @nn.compact
    def __call__(self, x: jax.Array, statistics: Statistics) -> jax.Array:
        convolution = partial(Convolution, self.features, lowering=self.lowering, dtype=self.dtype)
        y = convolution()(_activate(self, x, statistics))
        y = convolution(stride=self.stride)(_activate(self, y, statistics))
        if x.shape != y.shape:
            x = convolution(kernel_size=1, stride=self.stride, name="shortcut")(x)
        return x + y


def _in_turn(blocks: Sequence[ResidualBlock], x: jax.Array, statistics: Statistics) -> jax.Array:
    """Applies ``blocks`` of one shape in a loop, so that a program holds them once.

    They are called one by one to initialise them and to capture their outputs (Flax's collection
    ``intermediates``).
    """
    if len(blocks) < 2 or blocks[0].is_initializing() or blocks[0].is_mutable_collection(CAPTURED):
        for block in blocks:
            x = block(x, statistics)
        return x
    alone = blocks[0].clone(parent=None, name=None)
    variables = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(b.variables for b in blocks))

    def advance(x: jax.Array, variables: Any) -> tuple[jax.Array, Any]:
        return alone.apply(variables, x, statistics, mutable=[AVERAGES])

    x, updates = jax.lax.scan(advance, x, variables)
    if blocks[0].is_mutable_collection(AVERAGES):
        for i, block in enumerate(blocks):
            own = jax.tree.map(operator.itemgetter(i), updates.get(AVERAGES, {}))
            for name, averages in own.items():
                block.put_variable(AVERAGES, name, averages)
    return x


def _activate(network: WideResNet | ResidualBlock, x: jax.Array, statistics: Statistics) -> Any:
    """Normalises by a layer of ``network``, if it has one, and applies leaky ReLU."""
    if network.norm == "group":
        x = nn.GroupNorm(
            NUM_GROUPS, epsilon=EPSILON, reduction_axes=PIXELS_AND_CHANNELS, dtype=network.dtype
        )(x)
    elif network.norm == "batch":
        x = nn.BatchNorm(
            statistics == "running",
            momentum=MOMENTUM,
            epsilon=EPSILON,
            dtype=network.dtype,
            axis_name=cast(Any, network.batch_axis),
        )(x)
    return nn.leaky_relu(x, LEAK)
