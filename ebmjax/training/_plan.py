"""Plan of a run: its length, how its work is cut, and when to log, monitor and save."""

from collections.abc import Iterator
from dataclasses import dataclass

from ebmjax._checks import check_at_least

MAX_STEPS = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The arithmetic of a run.

    Steps are dispatched to the device in blocks. Their borders depend on the plan alone, so an
    interrupted run is cut into the same compiled programs as an uninterrupted one. Both end with
    the same bits.

    Attributes:
      total_steps: at least 1.
      batch_size: examples a step, over all shards. A tuple asks for as many independent streams
        over the same examples, each with separate epochs; a batch is then a tuple, too.
      num_shards: logical shards of a batch; any number of devices that divides it gives the same
        trajectory (with threefry keys, JAX's default; ``vmap`` mixes up those of "rbg").
      steps_per_dispatch: steps in one compiled call. More hides the host behind the device.
      log_every: a row is logged whenever the step is a multiple of it, and at the end.
      monitor_every: steps between calls of ``monitor``, a multiple of ``steps_per_dispatch``; 0
        for none.
      monitor_at_start: whether ``monitor`` also sees the untrained state.
      checkpoint_every: steps between checkpoints, a multiple of ``steps_per_dispatch``; 0 for none.
        The last step is always saved.
      max_consecutive_skips: so many steps in a row without a finite update end the run.
      data_seed: of the order of the examples, at least 0. A tuple holds one seed for each repeat
        of a run of repeats (see ``fit``).

    Raises:
      ValueError: where a number is out of range, or an interval is no multiple of the dispatch.
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
    data_seed: int | tuple[int, ...] = 0

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
        self._check_seeds()
        self._check_streams()
        for name in ("monitor_every", "checkpoint_every"):
            interval = getattr(self, name)
            check_at_least(name, interval, 0)
            if interval % self.steps_per_dispatch:
                raise ValueError(
                    f"{name} must be a multiple of steps_per_dispatch={self.steps_per_dispatch}, "
                    f"because the device is only looked at between dispatches; got {interval}."
                )

    def _check_seeds(self) -> None:
        if self.data_seed == ():
            raise ValueError(
                "data_seed must hold at least one seed, the number of repeats; got ()."
            )
        for seed in self.seeds:
            check_at_least("data_seed", seed, 0)

    def _check_streams(self) -> None:
        if not self.streams:
            raise ValueError("batch_size must name at least one stream, got an empty tuple.")
        for size in self.streams:
            check_at_least("batch_size", size, 1)
            if size % self.num_shards:
                raise ValueError(
                    f"batch_size must be a multiple of num_shards, got "
                    f"batch_size={self.batch_size} "
                    f"and num_shards={self.num_shards}."
                )

    @property
    def seeds(self) -> tuple[int, ...]:
        """The data seed of every repeat, or of the single run."""
        return self.data_seed if isinstance(self.data_seed, tuple) else (self.data_seed,)

    @property
    def streams(self) -> tuple[int, ...]:
        """Examples a step of every stream."""
        return self.batch_size if isinstance(self.batch_size, tuple) else (self.batch_size,)

    def blocks(self, first_step: int) -> Iterator[tuple[int, int]]:
        """(steps taken before the block, steps in it) from ``first_step`` to the end."""
        while first_step < self.total_steps:
            until_border = self.steps_per_dispatch - first_step % self.steps_per_dispatch
            size = min(until_border, self.total_steps - first_step)
            yield first_step, size
            first_step += size

    def is_logged(self, step: int) -> bool:
        """Whether a row is due after ``step`` steps."""
        return step % self.log_every == 0 or step == self.total_steps

    def is_monitored(self, step: int) -> bool:
        """Whether ``monitor`` is due after ``step`` steps."""
        if not self.monitor_every:
            return False
        if step == 0:
            return self.monitor_at_start
        return step % self.monitor_every == 0 or step == self.total_steps

    def is_saved(self, step: int) -> bool:
        """Whether a checkpoint is due after ``step`` steps."""
        return step == self.total_steps or bool(
            self.checkpoint_every and step % self.checkpoint_every == 0
        )
