"""The training loop."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax._checks import check_key, leading_size
from ebmjax._phases import phase
from ebmjax._records import json_digest
from ebmjax._stored import StoredRows
from ebmjax.training._checkpoints import Checkpoints
from ebmjax.training._feed import Feed
from ebmjax.training._plan import Plan
from ebmjax.training._sharding import (
    STATE_SPECS,
    describe_batches,
    describe_shapes,
    make_mesh,
    place_state,
)
from ebmjax.training._start import begin
from ebmjax.training._state import TrainState
from ebmjax.training._step import BlockRunner, TrainStep, make_block
from ebmjax.training._stops import SkipWatch, StopRequest
from ebmjax.training._writers import RowLogger, Writer
from ebmjax.types import Key, PyTree

Monitor = Callable[[TrainState, int], dict[str, Any]]
"""``monitor(state, step) -> row``: host code run between blocks; its row joins the step's.

Copy everything that must outlive the call: the state is donated to the next block.
"""


class FitResult(NamedTuple):
    """Outcome of a run.

    Attributes:
      state: after the last step taken; of several processes, each has it whole.
      first_step: steps taken by earlier sittings of the run.
      row: the last row logged, with what ``monitor`` returned; {} if none was.
      signum: the signal that stopped the run early, or None.
      wall_seconds: time of this and all earlier sittings, compilation included.
      compile_seconds: time spent compiling the training step.
      data_sha256: digest of the data, 64 hexadecimal digits; None without checkpoints.
    """

    state: TrainState
    first_step: int
    row: dict[str, Any]
    signum: int | None
    wall_seconds: float
    compile_seconds: float
    data_sha256: str | None = None


def fit(
    key: Key,
    state: TrainState,
    train_step: TrainStep,
    data: PyTree,
    plan: Plan,
    *,
    numbers: PyTree = None,
    checkpoints: Checkpoints | None = None,
    writers: Sequence[Writer] = (),
    monitor: Monitor | None = None,
    devices: Sequence[Any] | None = None,
    signals: bool = True,
) -> FitResult:
    """Trains to the end of ``plan``, from the newest intact checkpoint if there is one.

    This is the only place that jits (donating the state), shards, folds keys, saves, logs and
    resumes. A run that was killed and continued with the same arguments takes the same steps, bit
    for bit on the same device, and logs each row once. SIGINT and SIGTERM end it after the current
    block, with a checkpoint, unless ``signals`` is False.

    With several processes (``jax.distributed.initialize``) call it on each, with the same
    arguments. Process 0 alone monitors, logs, reads and writes checkpoints, and its ``state``
    counts. A signal to any process ends all after the same block, at most three blocks later.

    Args:
      key: root of all randomness; step i uses ``fold_in(key, i)``.
      state: from ``init_state``; checkpoints must fit it.
      train_step: from ``make_train_step`` with ``axis_name="data"``, or any function like it.
      data: arrays that share a leading axis of examples, in memory or in files (``load_images``
        with ``on_disk=True``). Step i sees the examples ``batch_indices(plan.data_seed, i, ...)``;
        further streams (see ``Plan.batch_size``) have other orders. A thread gathers the rows of a
        block of steps while the device works on the block before.
      plan: lengths and intervals.
      numbers: for every step, see ``make_train_step``; None for a step that takes none.
      checkpoints: where to save and to resume from; None for neither. Closed on return.
      writers: receive the logged rows, one block late, so that the device never waits for them.
        ``fit`` starts them; the caller closes them.
      monitor: called every ``plan.monitor_every`` steps, at the end and, by default, before the
        first step.
      devices: devices for the shards; default all.
      signals: whether SIGINT and SIGTERM are handled while it trains. A fit inside another function
        takes False, so that signals do what the user's program wants.

    Raises:
      DivergenceError: after ``plan.max_consecutive_skips`` steps in a row without a finite update.
      CheckpointMismatchError: see ``Checkpoints.restore_latest``; also if the checkpoint was made
        with other data.
      CheckpointDamagedError: see ``Checkpoints.restore_latest``.
      TypeError, ValueError: for arguments that do not fit together, data that are not finite and
        labels for which the model has no class; before anything compiles.
    """
    started = time.perf_counter()
    mesh = make_mesh(plan.num_shards, devices)
    state, meta, digest = begin(state, data, checkpoints)
    seconds, first_step = meta["seconds"], int(state.step)

    check_fits(key, state, train_step, data, plan, numbers=numbers, devices=devices)
    state = place_state(state, mesh)
    feed = Feed(data, plan, mesh)
    run_block = BlockRunner(train_step, mesh, key, numbers)
    counts = int(state.skipped), int(state.consecutive_skipped)
    watch = SkipWatch(plan.max_consecutive_skips, first_step, *counts, meta["reason"])
    log = RowLogger(plan, writers, first_step, meta["row"], watch)

    def monitored(step: int) -> dict[str, Any]:
        if monitor is None or not plan.is_monitored(step):
            return {}
        with phase(f"measuring at step {step:,}"):
            return monitor(state, step)

    if monitor and first_step == 0 and plan.is_monitored(0):
        if (block := next(plan.blocks(0), None)) is not None:
            indices = plan.indices(*block, leading_size("data", data))
            run_block.compile_ahead(state, describe_batches(data, indices, mesh))
        log.write(0, monitored(0))

    def elapsed() -> dict[str, float]:
        return {
            "wall": seconds["wall"] + time.perf_counter() - started,
            "compile": seconds["compile"] + run_block.compile_seconds,
        }

    signum, num_left = None, plan.total_steps - first_step
    after = f", from step {first_step:,} of {plan.total_steps:,}"
    with (
        StopRequest(signals) as stop,
        checkpoints or contextlib.nullcontext(),
        phase(f"training {num_left:,} steps" + after * (first_step > 0)) as note,
    ):
        for first, size, batches in feed.blocks(first_step):
            if signum is not None or watch.divergence is not None:
                break
            note(f"after step {first:,}")
            state, metrics = run_block(state, batches)
            log.flush()  # writes the previous block's rows while the device works on this one
            step = first + size
            log.pending = first, metrics, monitored(step)
            signum = stop.signum  # read once, because it may change at any time
            if plan.is_saved(step) or signum is not None or watch.divergence is not None:
                log.flush()
                if checkpoints:
                    meta = {
                        "seconds": elapsed(),
                        "row": log.row,
                        "data": digest,
                        "reason": watch.reason,
                        "total_steps": plan.total_steps,
                        "is_diverged": watch.divergence is not None,
                    }
                    is_good = plan.is_saved(step) and not watch.is_skipping
                    checkpoints.save(step, state, meta, is_passing=not is_good)
        signum = stop.signum
    if watch.divergence is not None:
        watch.divergence.signum = signum
        raise watch.divergence
    # A finished run took no training time in this sitting.
    spent = elapsed() if first_step < plan.total_steps else seconds
    return FitResult(
        state,
        first_step,
        log.row,
        signum,
        spent["wall"],
        spent["compile"],
        json_digest(digest) if digest else None,
    )


def check_fits(
    key: Key,
    state: TrainState,
    train_step: TrainStep,
    data: PyTree,
    plan: Plan,
    *,
    numbers: PyTree = None,
    devices: Sequence[Any] | None = None,
) -> None:
    """Traces what ``fit`` would compile for these arguments, and runs nothing.

    Some errors show only while tracing. Call this before you make a folder, so that a mistake
    leaves no folder behind.
    """
    check_key("key", key)
    if key.shape:
        raise ValueError(f"key must be one typed key, got an array of shape {key.shape}.")
    num_shards = leading_size("state.carry", state.carry) if jax.tree.leaves(state.carry) else None
    if num_shards not in (None, plan.num_shards):
        raise ValueError(
            f"state.carry must have a leading axis of plan.num_shards={plan.num_shards} logical "
            f"shards, got {num_shards}. Make the state with that many, or change the plan."
        )
    _check_data(train_step, state, data)
    if (block := next(plan.blocks(int(state.step)), None)) is None:
        return
    mesh = make_mesh(plan.num_shards, devices)
    indices = plan.indices(*block, leading_size("data", data))
    batches = describe_batches(data, indices, mesh)
    # Its later run reuses the trace.
    state = describe_shapes(state, mesh, STATE_SPECS)
    make_block(train_step, mesh).eval_shape(key, state, batches, numbers)


def _check_data(train_step: TrainStep, state: TrainState, data: PyTree) -> None:
    """Raises unless all data, looked at on the host, are finite and fit the model.

    Inside ``jit`` values are not checked, and a NaN would spoil every step that uses it.
    """
    leading_size("data", data)
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if isinstance(leaf, StoredRows) or not jax.numpy.issubdtype(leaf.dtype, np.inexact):
            continue
        array, name = np.asarray(leaf), "data" + jax.tree_util.keystr(path)
        if not (is_broken := ~np.isfinite(array)).any():
            continue
        first = tuple(int(i) for i in np.argwhere(is_broken)[0])
        raise ValueError(
            f"{name} must be finite: {np.count_nonzero(is_broken)} of its {array.size} numbers are "
            f"NaN or infinite, the first {name}[{', '.join(map(str, first))}]={array[first]}. "
            "Repair these examples or leave them out."
        )
    if check_model := getattr(train_step, "check_data", None):
        one_shard = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), state.carry)
        check_model(jax.eval_shape(lambda: state.params), one_shard, data)
