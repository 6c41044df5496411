"""One run by its mode: trains in a folder, evaluates there, or both."""

import contextlib
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from ebmjax import training
from ebmjax._phases import phase, tell_phases
from ebmjax.recipes.config.errors import Config, WorkdirError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.models.build import Experiment
from ebmjax.recipes.report import of_run
from ebmjax.recipes.report.run_data import record_command
from ebmjax.recipes.run import best, reports, start_from
from ebmjax.recipes.run.compilation import use_compilation_cache
from ebmjax.recipes.run.explain import explain_writes
from ebmjax.recipes.run.run import Run
from ebmjax.recipes.run.tracking import load_service


@tell_phases("stdout")
def launch(
    config: Config,
    config_argument: str,
    folder: str | None,
    mode: str = "train",
    is_profiled: bool = False,
    step: int | None = None,
    track: str | None = None,
) -> int | None:
    """Runs ``config`` to its end in ``folder``; returns the signal that ended it early, or None.

    ``mode`` "eval" only evaluates the run of ``folder``, at ``step`` or at its newest or best
    state; "all" trains and evaluates. ``is_profiled`` traces training into the folder's profile/.
    ``track`` names the service that training is sent to.

    Raises:
      explain.USER_ERRORS: the message says what to do.
    """
    started = time.perf_counter()
    use_compilation_cache()
    if mode == "eval":
        if track is not None:
            raise WorkdirError("--track follows training: leave it out with --mode=eval.")
        training.on_first(lambda: evaluate_saved(config, folder, config_argument, step))
        return None
    if step is not None:
        raise WorkdirError("--step names the state that --mode=eval evaluates: leave it out.")
    if track is not None:
        training.on_first(lambda: load_service(track))
    name = Path(config_argument.partition(":")[0]).stem
    place = folder or training.from_first(lambda: workdir.default_workdir(name))
    run = Run(config, place, track=track)
    training.on_first(lambda: workdir.check_writable(run.path))
    run.open()
    print(f"{config_argument} -> {run.path}", about_devices(), sep="\n", flush=True)
    run.build()
    run.trace()
    print(*about(run.experiment), sep="\n", flush=True)
    if mode == "all":
        reports.check_evaluation(run)
    start = training.on_first(run.prepare)
    # Includes overrides, which belong to the configuration.
    command = as_typed([*sys.argv, *([] if folder else [f"--workdir={run.path}"])])
    with contextlib.ExitStack() as held, explain_writes(run.path):
        training.on_first(lambda: held.enter_context(workdir.only_process(run.path)))
        run.begin(start)
        if start is not None:
            start_from.record(run.config, run.path, start)
        if training.is_first():
            record_command(run.path, command, run.config, config_argument)
            held.callback(of_run.write, run.path, is_over=True)
        if is_profiled and training.is_first():
            place = run.path / "profile"
            with jax.profiler.trace(place, create_perfetto_trace=True):
                result = run.train(command)
            print(f"Trace in {place}")
        else:
            result = run.train(command)
        if not isinstance(result, int):
            training.on_first(lambda: finish(run, result, started, mode))
        training.on_first(held.close)
    return result if isinstance(result, int) else None


def finish(run: Run, result: training.FitResult, started: float, mode: str) -> None:
    """Draws and summarises a run that began at ``started``; in the mode "all" evaluates it."""
    with phase("drawing plots"):
        run.experiment.draw()
    reports.summarise(run, result, time.perf_counter() - started)
    if mode == "all":
        is_best = run.config.evals.get("checkpoint") == "best"
        state = best.restore(run.path, run.experiment.state) if is_best else result.state
        reports.evaluate(run, state)


def evaluate_saved(
    config: Config,
    folder: str | None,
    config_argument: str = "a run",
    step: int | None = None,
) -> None:
    """Evaluates the state of ``step`` of the run in ``folder``, else its newest or best."""
    if folder is None:
        raise WorkdirError("--mode=eval needs --workdir=FOLDER, the folder of a run.")
    run = Run(config, folder)
    workdir.check(run.path, config, may_differ="evals.")
    found = run.find(step)
    workdir.check_writable(run.path)
    print(found, f"{config_argument} -> {run.path}", about_devices(), sep="\n", flush=True)
    run.build()
    reports.check_evaluation(run)
    print(*run.experiment.about_data, sep="\n", flush=True)
    with workdir.only_process(run.path), explain_writes(run.path):
        state, found = run.restore(found, is_named=step is not None)
        reports.evaluate(run, state, found.is_end)
        of_run.write(run.path, is_over=True)


def about_devices() -> str:
    """Returns the line that says where a run computes."""
    devices = jax.devices()
    number = f"{len(devices)} x " * (len(devices) > 1)
    shared = f" in {jax.process_count()} processes" * (jax.process_count() > 1)
    return f"on {number}{devices[0].device_kind}{shared}, JAX {jax.__version__}"


def about(experiment: Experiment) -> list[str]:
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


def as_typed(argv: Sequence[str]) -> str:
    """Returns the command line that started a process, to be typed again."""
    name, *arguments = argv
    program = f"python {shlex.quote(name)}" if name.endswith(".py") else name
    return " ".join([program, *map(shlex.quote, arguments)])
