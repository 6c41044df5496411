"""Carry of a logical shard of a joint energy model from step to step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_positive
from ebmjax.learning._negatives import Negatives
from ebmjax.samplers import replay_buffer_init
from ebmjax.types import Key, PyTree


class JointShard(NamedTuple):
    """Carry of a logical shard of a joint energy model from step to step.

    Attributes:
      buffer: its replay buffer; () for a plain classifier.
      statistics: running averages of batch normalisation; {} where there are none.
      smoothing: scalar alpha, which divides the log density in sampler and loss.
    """

    buffer: Any
    statistics: PyTree
    smoothing: jax.Array


def init_joint_shards(
    key: Key,
    statistics: PyTree,
    negatives: Negatives | None,
    *,
    num_shards: int,
    buffer_size: int,
    smoothing: float = 1.0,
) -> JointShard:
    """The state of every logical shard before the first step, for ``init_state``.

    Args:
      key: split among the shards.
      statistics: from ``Classifier.init``, the same for all.
      negatives: as given to ``make_joint_gradient_fn``; None makes no buffer.
      num_shards: logical shards.
      buffer_size: slots of all shards together, a multiple of ``num_shards``.
      smoothing: positive.

    Raises:
      ValueError: if the shards cannot share the slots, a shard's buffer is smaller than its
        batch of negatives or not divisible among the classes, or ``smoothing`` is not positive.
    """
    check_at_least("num_shards", num_shards, 1)
    check_positive("smoothing", smoothing)
    if negatives is None:
        one = JointShard((), statistics, jnp.float32(smoothing))
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * num_shards), one)
    if buffer_size % num_shards:
        raise ValueError(
            f"buffer_size must be a multiple of num_shards={num_shards}, got {buffer_size}."
        )
    size = buffer_size // num_shards
    if size < negatives.num_samples:
        raise ValueError(
            f"buffer_size must hold the {negatives.num_samples} negatives of each of {num_shards} "
            f"shards, at least {negatives.num_samples * num_shards} slots; got {buffer_size}."
        )

    def one_shard(key: Key) -> JointShard:
        buffer = replay_buffer_init(key, size, negatives.law, num_classes=negatives.num_classes)
        return JointShard(buffer, statistics, jnp.float32(smoothing))

    shards = [one_shard(key) for key in jax.random.split(key, num_shards)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *shards)
