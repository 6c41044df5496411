"""Carry of a logical shard of an image energy from step to step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least
from ebmjax.learning._image_energy_chains import DualAveraging, ImageNegatives
from ebmjax.samplers import replay_buffer_init
from ebmjax.types import Key


class ImageEnergyShard(NamedTuple):
    """Carry of a logical shard of an image energy from step to step.

    Attributes:
      buffer: its replay buffer; () where all chains start anew.
      step: scalar int32, steps that were not skipped.
      adaptation: step sizes that adapt, by the name of their kind of chain; each shard adapts to
        its own chains.
    """

    buffer: Any
    step: jax.Array
    adaptation: dict[str, DualAveraging]


def init_image_energy_shards(
    key: Key, negatives: ImageNegatives, *, num_shards: int, buffer_size: int
) -> ImageEnergyShard:
    """The state of every logical shard before the first step, for ``init_state``.

    Args:
      key: split among the shards.
      negatives: as given to ``make_image_energy_gradient_fn``.
      num_shards: logical shards.
      buffer_size: slots of all shards together, a multiple of ``num_shards``; 0 for chains that
        start anew at every step.

    Raises:
      ValueError: if the shards cannot share the slots, or a shard's buffer is smaller than its
        batch of negatives or not divisible among the classes.
    """
    check_at_least("num_shards", num_shards, 1)
    check_at_least("buffer_size", buffer_size, 0)
    size = buffer_size // num_shards
    if buffer_size % num_shards or 0 < size < negatives.num_samples:
        raise ValueError(
            f"buffer_size must be 0 or a multiple of num_shards={num_shards} that holds the "
            f"{negatives.num_samples} negatives of each, got {buffer_size}."
        )

    def one_shard(key: Key) -> ImageEnergyShard:
        buffer = ()
        if size:
            classes = negatives.num_classes
            buffer = replay_buffer_init(key, size, negatives.law, num_classes=classes)
        return ImageEnergyShard(buffer, jnp.int32(0), negatives.init_adaptation())

    shards = [one_shard(key) for key in jax.random.split(key, num_shards)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *shards)
