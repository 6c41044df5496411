"""One run from start to finish, inside its folder."""

import contextlib
import errno
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from ebmjax import training
from ebmjax.data import DataUnavailableError
from ebmjax.recipes.core import best, build, evaluate, families, start_from, workdir
from ebmjax.recipes.core.fields import Config, ConfigError, WorkdirError, WriteError, flatten
from ebmjax.recipes.core.tracking import TensorBoardWriter, progress_writer
from ebmjax.recipes.core.workdir_lock import only_process

USER_ERRORS = (
    ConfigError,
    WorkdirError,
    WriteError,
    DataUnavailableError,
    FileNotFoundError,
    NotADirectoryError,
    training.CheckpointAccessError,
    training.CheckpointDamagedError,
    training.CheckpointMismatchError,
    training.DivergenceError,
)

TAKES_NO_MORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EIO)

BROKE_OFF = (WriteError, training.DivergenceError)
"""Errors of a run that had begun; the others leave everything as it was."""


def launch(
    config: Config, config_argument: str, folder: str | None, mode: str = "train"
) -> int | None:
    """Runs ``config`` to its end in ``folder``; returns the signal that ended it early, or None.

    ``mode`` "eval" only evaluates the finished run of ``folder``; "all" trains and evaluates.

    Raises:
      USER_ERRORS: the message says what to do.
    """
    started = time.perf_counter()
    use_compilation_cache()
    if mode == "eval":
        evaluate_finished(config, folder)
        return None
    name = Path(config_argument.partition(":")[0]).stem
    path = Path(folder).expanduser() if folder else workdir.default_workdir(name)
    workdir.check(path, config)
    experiment = build_or_explain(config, lambda: build_and_trace(config, path))
    if mode == "all":
        evaluate.check(experiment, config)
    workdir.check_checkpoints(path, experiment.plan.checkpoint_every)
    start = start_from.warm_start(config, path, experiment)
    workdir.prepare(path, config)
    # Includes overrides, which belong to the configuration.
    command = as_typed([*sys.argv, *([] if folder else [f"--workdir={path}"])])
    with only_process(path), told_as_write_error(path):
        print(f"{config_argument} -> {path}", *experiment.about_data, sep="\n", flush=True)
        if start is not None:
            experiment = experiment._replace(state=start.state)
            start_from.record(config, path, start)
        result = train(config, experiment, path, command)
        if result is None:
            return signal.SIGINT
        if result.signum is not None:
            return result.signum
        experiment.draw()
        summarise(path, config, result, experiment, time.perf_counter() - started)
        if mode == "all":
            state = result.state
            if evaluate.is_of_best(config):
                state = best.restore(path, experiment.state)
            evaluate.evaluate(path, config, experiment, state)
    return None


def as_typed(argv: Sequence[str]) -> str:
    """Returns the command line that started a process, to be typed again."""
    name, *arguments = argv
    program = f"python {shlex.quote(name)}" if name.endswith(".py") else name
    return " ".join([program, *map(shlex.quote, arguments)])


def train(
    config: Config, experiment: build.Experiment, path: Path, command: str
) -> training.FitResult | None:
    """Trains and prints how it ended; returns None if interrupted before a safe point.

    ``command`` continues the run.
    """
    num_used = training.make_mesh(experiment.plan.num_shards).size
    if num_used < jax.device_count():
        print(
            f"Using {num_used} of {jax.device_count()} devices: they must divide "
            f"config.mesh.num_shards={experiment.plan.num_shards}, which divides "
            "config.train.batch_size."
        )
    writers = [
        training.JsonlWriter(path / "metrics.jsonl", log_every=experiment.plan.log_every),
        TensorBoardWriter(path),
        progress_writer(experiment.plan.total_steps),
    ]
    monitor = experiment.monitor
    if config.train.get("keep_best"):
        monitor = best.KeepBest(monitor, path, config.train.keep_best, experiment.state)
    try:
        result = training.fit(
            build.train_key(config),
            experiment.state,
            experiment.train_step,
            experiment.data,
            experiment.plan,
            checkpoints=training.Checkpoints(path / "checkpoints"),
            writers=writers,
            monitor=monitor,
        )
    except KeyboardInterrupt:
        print(f"Interrupted before a safe point. From the last one it goes on with:\n  {command}")
        return None
    finally:
        for writer in writers:
            writer.close()
    if result.signum is not None:
        print(
            f"Interrupted at step {int(result.state.step)} of {experiment.plan.total_steps}; "
            f"saved. Continue with:\n  {command}"
        )
    elif result.first_step == experiment.plan.total_steps:
        print("This run had finished already: nothing was trained, its plots are drawn again.")
    return result


def evaluate_finished(config: Config, folder: str | None) -> None:
    """Restores the finished run of ``folder`` and evaluates it."""
    if folder is None:
        raise WorkdirError("--mode=eval needs --workdir=FOLDER, the folder of a finished run.")
    path = Path(folder).expanduser()
    evaluate.check_folder(path, config)
    workdir.check_writable(path)
    experiment = build_or_explain(config, lambda: families.build(config, path))
    evaluate.check(experiment, config)
    # Restoring moves a damaged checkpoint aside.
    with only_process(path), told_as_write_error(path):
        evaluate.evaluate(path, config, experiment, evaluate.restore(path, config, experiment))


@contextlib.contextmanager
def told_as_write_error(path: Path) -> Iterator[None]:
    """Turns an OSError that says the folder takes no more files into a WriteError."""
    try:
        yield
    except OSError as error:
        if error.errno not in TAKES_NO_MORE:
            raise
        if isinstance(error, training.CheckpointAccessError):
            raise WriteError(str(error)) from error
        raise WriteError(
            f"--workdir {path} could not be written any more: {error.strerror}. What was saved "
            "before is safe. Make room, or mend the permissions, and give the same command again."
        ) from error


def build_and_trace(config: Config, path: Path) -> build.Experiment:
    """Builds the experiment and traces its training step, because some mistakes show only then."""
    experiment = families.build(config, path)
    training.check_fits(
        build.train_key(config),
        experiment.state,
        experiment.train_step,
        experiment.data,
        experiment.plan,
    )
    return experiment


def build_or_explain(config: Config, make: Callable[[], build.Experiment]) -> build.Experiment:
    """Returns ``make()``; turns the library's errors into errors of ``config``."""
    try:
        return make()
    except USER_ERRORS:
        raise
    except (ValueError, TypeError) as error:
        fields = ", ".join(fields_behind(str(error), config))
        where = f" Set here: {fields}." if fields else ""
        raise ConfigError(f"the configuration does not fit together: {error}{where}") from error


def fields_behind(message: str, config: Config) -> list[str]:
    """Returns the fields, with values, that a message of the library names by arguments.

    A message has ``padding=2`` or "padding must ..., got 2" for config.data.crop_padding: the field
    ends in the argument's name and has its value.
    """
    given = re.findall(r"\b(\w+)='?([\w.:/+-]*\w)", message)
    given += re.findall(r"^(\w+) must .*?\bgot '?([\w.+-]*\w)", message)
    flat = {name: str(value) for name, value in flatten(config.to_dict()).items()}
    return [
        f"config.{name}={value}"
        for name, value in flat.items()
        if f"config.{name}" not in message
        and any(
            f"_{name}".replace(".", "_").endswith(f"_{argument}") and value == other
            for argument, other in given
        )
    ]


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second run starts at once."""
    if not jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path.home() / ".cache" / "ebmjax" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def summarise(
    path: Path,
    config: Config,
    result: training.FitResult,
    experiment: build.Experiment,
    sitting_seconds: float,
) -> None:
    """Writes summary.json and prints where things are; includes a pilot's time."""
    pilot = experiment.pilot
    before = pilot or build.Seconds(0.0, 0.0)
    seconds = build.Seconds(
        before.wall + result.wall_seconds, before.compile + result.compile_seconds
    )
    summary: dict[str, Any] = {
        **result.row,
        "steps": int(result.state.step),
        "seed": config.seed,
        "versions": workdir.versions(),
        "revision": workdir.revision(),
        "devices": [str(device.device_kind) for device in jax.devices()],
        "wall_seconds": round(seconds.wall, 3),
        "compile_seconds": round(seconds.compile, 3),
        "run_seconds": round(seconds.run, 3),
        "params_sha256": training.tree_digest(result.state.params),
        "data_sha256": result.data_sha256,
    }
    if experiment.about_data:
        summary["data"] = list(experiment.about_data)
    if pilot is not None:
        summary["pilot_seconds"] = round(pilot.wall, 3)
    workdir.write_summary(path, summary)
    print(f"Done in {sitting_seconds:.0f} s. Numbers in {path}/summary.json, plots in {path}/plots")
