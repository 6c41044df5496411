"""Plan of a run: its length, its blocks, and when to log, monitor and save."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebmjax._checks import check_at_least
from ebmjax.data import batch_indices

MAX_STEPS = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Lengths and intervals of a run.

    Steps are dispatched to the device in blocks, whose borders depend on the plan alone. So an
    interrupted run uses the same compiled programs as an uninterrupted one and ends with the same
    bits.

    Attributes:
      total_steps: at least 1.
      batch_size: examples a step, over all shards. A tuple makes as many independent streams over
        the same examples, each with separate epochs; the batch is then a tuple, too.
      num_shards: logical shards of a batch. Any number of devices that divides it gives the same
        trajectory (with threefry keys, JAX's default; not with "rbg" keys).
      steps_per_dispatch: steps in one compiled call. More steps hide the host's work.
      log_every: steps between logged rows; the last step is always logged.
      monitor_every: steps between calls of ``monitor``, a multiple of ``steps_per_dispatch``; 0
        for none.
      monitor_at_start: whether ``monitor`` also sees the untrained state.
      checkpoint_every: steps between checkpoints, a multiple of ``steps_per_dispatch``; 0 for none.
        The last step is always saved.
      max_consecutive_skips: number of steps in a row without a finite update that ends the run.
      data_seed: seed of the order of the examples, at least 0.
    """

    total_steps: int
    batch_size: int | tuple[int, ...]
    num_shards: int = 1
    steps_per_dispatch: int = 1
    log_every: int = 1
    monitor_every: int = 0
    monitor_at_start: bool = True
    checkpoint_every: int = 0
    max_consecutive_skips: int = 20
    data_seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "total_steps",
            "num_shards",
            "steps_per_dispatch",
            "log_every",
            "max_consecutive_skips",
        ):
            check_at_least(name, getattr(self, name), 1)
        if self.total_steps > MAX_STEPS:
            raise ValueError(
                f"total_steps must be at most {MAX_STEPS}, since a state counts its steps in 32 "
                f"bits; got total_steps={self.total_steps}."
            )
        check_at_least("data_seed", self.data_seed, 0)
        if not self.streams:
            raise ValueError("batch_size must name at least one stream, got an empty tuple.")
        for size in self.streams:
            check_at_least("batch_size", size, 1)
            if size % self.num_shards:
                raise ValueError(
                    "batch_size must be a multiple of num_shards, got "
                    f"batch_size={self.batch_size} and num_shards={self.num_shards}."
                )
        for name in ("monitor_every", "checkpoint_every"):
            interval = getattr(self, name)
            check_at_least(name, interval, 0)
            if interval % self.steps_per_dispatch:
                raise ValueError(
                    f"{name} must be a multiple of steps_per_dispatch={self.steps_per_dispatch}, "
                    f"because the device is only looked at between dispatches; got {interval}."
                )

    @property
    def streams(self) -> tuple[int, ...]:
        """Examples a step, for every stream."""
        return self.batch_size if isinstance(self.batch_size, tuple) else (self.batch_size,)

    def blocks(self, first_step: int) -> Iterator[tuple[int, int]]:
        """Yields (steps taken before the block, steps in it) from ``first_step`` to the end."""
        while first_step < self.total_steps:
            until_border = self.steps_per_dispatch - first_step % self.steps_per_dispatch
            size = min(until_border, self.total_steps - first_step)
            yield first_step, size
            first_step += size

    def indices(self, first_step: int, size: int, num_examples: int) -> Any:
        """Returns the examples of a block, (size, num_shards, examples of a shard), by stream."""
        steps, streams = range(first_step, first_step + size), []
        for number, batch_size in enumerate(self.streams):
            # Far apart, because the second stream of a seed must not be the first of the next seed.
            seed = self.data_seed + number * 2**32
            sizes = {"num_examples": num_examples, "batch_size": batch_size}
            stream = np.stack([batch_indices(seed, step, **sizes) for step in steps])
            streams.append(stream.reshape(size, self.num_shards, -1))
        return tuple(streams) if isinstance(self.batch_size, tuple) else streams[0]

    def is_logged(self, step: int) -> bool:
        """Returns whether a row is due after ``step`` steps."""
        return step % self.log_every == 0 or step == self.total_steps

    def is_monitored(self, step: int) -> bool:
        """Returns whether ``monitor`` is due after ``step`` steps."""
        if not self.monitor_every:
            return False
        if step == 0:
            return self.monitor_at_start
        return step % self.monitor_every == 0 or step == self.total_steps

    def is_saved(self, step: int) -> bool:
        """Returns whether a checkpoint is due after ``step`` steps."""
        return step == self.total_steps or bool(
            self.checkpoint_every and step % self.checkpoint_every == 0
        )
