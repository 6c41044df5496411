"""One run from start to finish, inside its folder."""

import contextlib
import errno
import functools
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from ebmjax import training
from ebmjax._phases import tell_phases
from ebmjax.data import DataChangedError
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, WorkdirError, WriteError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.saved_state import find_saved
from ebmjax.recipes.folder.workdir_lock import only_process
from ebmjax.recipes.models import build
from ebmjax.recipes.run import best, evaluate, recover, start_from, summary
from ebmjax.recipes.run.explain import build_or_explain, built
from ebmjax.recipes.run.recovery_rows import Rows
from ebmjax.recipes.run.tracking import TensorBoardWriter, progress_writer

TAKES_NO_MORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EIO)

BROKE_OFF = (WriteError, DataChangedError, training.DivergenceError)
"""Errors of a run that had begun; the others leave everything as it was."""


@tell_phases("stdout")
def launch(
    config: Config,
    config_argument: str,
    folder: str | None,
    mode: str = "train",
    num_traced: int | None = None,
    step: int | None = None,
) -> int | None:
    """Runs ``config`` to its end in ``folder``; returns the signal that ended it early, or None.

    ``mode`` "eval" only evaluates the run of ``folder``, at ``step`` or at its newest or best
    state; "all" trains and evaluates. So many steps as ``num_traced`` says are traced into the
    folder's profile/.

    Raises:
      explain.USER_ERRORS: the message says what to do.
    """
    started = time.perf_counter()
    use_compilation_cache()
    if mode == "eval":
        if num_traced is not None:
            raise WorkdirError("--profile traces training: leave it out with --mode=eval.")
        training.on_first(lambda: evaluate_saved(config, folder, config_argument, step))
        return None
    if step is not None:
        raise WorkdirError("--step names the state that --mode=eval evaluates: leave it out.")
    path, recoveries = training.from_first(lambda: opened(config, config_argument, folder))
    print(f"{config_argument} -> {path}", about_devices(), sep="\n", flush=True)
    experiment = built(config, recoveries, path)
    print(*about(experiment), sep="\n", flush=True)
    if mode == "all":
        evaluate.check(experiment, config)
    start = training.on_first(lambda: prepared(config, path, experiment))
    # Includes overrides, which belong to the configuration.
    command = as_typed([*sys.argv, *([] if folder else [f"--workdir={path}"])])
    profile = None
    with contextlib.ExitStack() as held, told_as_write_error(path):
        if num_traced and training.is_first():
            profile = held.enter_context(training.Profile(path / "profile", num_traced))
        training.on_first(lambda: held.enter_context(only_process(path)))
        if start is not None:
            experiment = experiment._replace(state=start.state)
            start_from.record(config, path, start)
        trained = train(config, experiment, path, command, recoveries, profile)
        if profile is not None:
            profile.close()
            print(about_profile(profile))
        if isinstance(trained, int):
            return trained
        training.on_first(lambda: summary.finish(path, config, trained, started, mode))
    return None


def opened(
    config: Config, config_argument: str, folder: str | None
) -> tuple[Path, list[recover.Recovery]]:
    """Returns the run's folder, checked against ``config``, and its recoveries, none half done."""
    name = Path(config_argument.partition(":")[0]).stem
    path = Path(folder).expanduser() if folder else workdir.default_workdir(name)
    workdir.check(path, config)
    return path, recover.complete(path, config)


def prepared(config: Config, path: Path, experiment: build.Experiment) -> training.WarmStart | None:
    """Makes or checks the run's folder; returns its start from another run, if it has one."""
    workdir.check_checkpoints(path, experiment.plan.checkpoint_every)
    start = start_from.warm_start(config, path, experiment)
    workdir.prepare(path, config)
    return start


def about_devices() -> str:
    """Returns the line that says where a run computes."""
    devices = jax.devices()
    number = f"{len(devices)} x " * (len(devices) > 1)
    shared = f" in {jax.process_count()} processes" * (jax.process_count() > 1)
    return f"on {number}{devices[0].device_kind}{shared}, JAX {jax.__version__}"


def about(experiment: build.Experiment) -> list[str]:
    """Returns lines about a run's data, its model and what will happen."""
    leaves, plan = jax.tree.leaves(experiment.state.params), experiment.plan
    size = plan.batch_size if isinstance(plan.batch_size, int) else plan.batch_size[0]
    steps_an_epoch = max(len(jax.tree.leaves(experiment.data)[0]) // size, 1)
    return [
        *experiment.about_data,
        f"model of {sum(leaf.size for leaf in leaves):,} parameters",
        f"{plan.total_steps:,} steps of batches of {size}, {steps_an_epoch:,} an epoch; "
        f"measured every {plan.monitor_every:,}, saved every {plan.checkpoint_every:,}",
        "compiled programs are kept, so another run starts sooner",
    ]


def about_profile(profile: training.Profile) -> str:
    """Returns the line that says what was traced."""
    if not profile.num_traced:
        return (
            "--profile traced nothing: this sitting trained one block or less, and the first is "
            "left out. Set --config.train.steps_per_dispatch lower."
        )
    return (
        f"Trace of {profile.num_traced} steps in {profile.folder}; docs/experiments.md says how to "
        "look at it."
    )


def as_typed(argv: Sequence[str]) -> str:
    """Returns the command line that started a process, to be typed again."""
    name, *arguments = argv
    program = f"python {shlex.quote(name)}" if name.endswith(".py") else name
    return " ".join([program, *map(shlex.quote, arguments)])


def train(
    config: Config,
    experiment: build.Experiment,
    path: Path,
    command: str,
    recoveries: Sequence[recover.Recovery],
    profile: training.Profile | None,
) -> summary.Trained | int:
    """Trains, recovers where the configuration says so, and prints how it ended.

    Args:
      config: the run's configuration.
      experiment: that of ``config`` with the remedies of ``recoveries``.
      path: the run's folder.
      command: continues the run.
      recoveries: those of earlier sittings.
      profile: writes a trace of some steps; None for none.

    Returns:
      The trained run, or the signal that interrupted it.

    Raises:
      DivergenceError: if the run diverged and does not recover.
    """
    while True:
        try:
            result = train_once(config, experiment, path, command, recoveries, profile)
        except training.DivergenceError as error:
            run = path, config, experiment, recoveries
            recoveries = training.from_first(functools.partial(recover.go_back, *run, error))
            if error.signum is not None:
                print(f"Interrupted. Continue with:\n  {command}")
                return error.signum
            experiment = built(config, recoveries, path)
            again = functools.partial(start_from.warm_start, config, path, experiment)
            start = training.on_first(again)  # if it begins at step 0 again
            if start is not None:
                experiment = experiment._replace(state=start.state)
            continue
        if result is None:
            return signal.SIGINT
        if result.signum is not None:
            return result.signum
        return summary.Trained(result, experiment, recoveries)


def train_once(
    config: Config,
    experiment: build.Experiment,
    path: Path,
    command: str,
    recoveries: Sequence[recover.Recovery],
    profile: training.Profile | None,
) -> training.FitResult | None:
    """Trains from the newest checkpoint; returns None if interrupted before a safe point."""
    num_used = training.make_mesh(experiment.plan.num_shards).size
    if num_used < jax.device_count():
        print(
            f"Using {num_used} of {jax.device_count()} devices: they must divide "
            f"config.mesh.num_shards={experiment.plan.num_shards}. For more, set "
            f"--config.mesh.num_shards={jax.device_count()} and a config.train.batch_size that it "
            "divides."
        )
    writers = [
        Rows(path, experiment.plan.log_every, recoveries),
        TensorBoardWriter(path),
        progress_writer(experiment.plan.total_steps),
    ]
    # config.json tells of the optimiser, which a remedy changes on purpose.
    vars(experiment.train_step).pop("optimizer", None)
    monitor = experiment.monitor
    if config.train.get("keep_best") and training.is_first():
        about = workdir.identity(config)
        monitor = best.KeepBest(monitor, path, config.train.keep_best, experiment.state, about)
    try:
        result = training.fit(
            recover.train_key(config, recoveries),
            experiment.state,
            experiment.train_step,
            experiment.data,
            experiment.plan,
            checkpoints=recover.checkpoints(path, config),
            writers=writers,
            monitor=monitor,
            profile=profile,
            placement=build.placement(config),
        )
    except KeyboardInterrupt:
        print(f"Interrupted before a safe point. From the last one it goes on with:\n  {command}")
        return None
    finally:
        for writer in writers:
            writer.close()
    recover.check_end(config, result)
    if result.signum is not None:
        print(
            f"Interrupted at step {int(result.state.step)} of {experiment.plan.total_steps}; "
            f"saved. Continue with:\n  {command}"
        )
    elif result.first_step == experiment.plan.total_steps:
        print("This run had finished already: nothing was trained, its plots are drawn again.")
    return result


def evaluate_saved(
    config: Config, folder: str | None, config_argument: str = "a run", step: int | None = None
) -> None:
    """Evaluates the state of ``step`` of the run in ``folder``, else its newest or best."""
    if folder is None:
        raise WorkdirError("--mode=eval needs --workdir=FOLDER, the folder of a run.")
    path = Path(folder).expanduser()
    workdir.check(path, config, may_differ="eval.")
    recoveries, found = recover.read_complete(path, config), find_saved(path, config, step)
    workdir.check_writable(path)
    print(found, f"{config_argument} -> {path}", about_devices(), sep="\n", flush=True)
    now = recover.remedied(config, recoveries)
    experiment = build_or_explain(now, lambda: families.build(now, path))
    evaluate.check(experiment, config)
    print(*experiment.about_data, sep="\n", flush=True)
    with only_process(path), told_as_write_error(path):
        state, found = evaluate.restore(path, now, experiment, found, is_named=step is not None)
        evaluate.evaluate(path, config, experiment, state, found.is_end)


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


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second run starts at once."""
    if not jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path.home() / ".cache" / "ebmjax" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
