"""One run by its mode: trains in a folder, evaluates there, or both."""

import contextlib
import shlex
import sys
import time
from pathlib import Path

import jax

from ebmjax import training
from ebmjax._phases import tell_phases
from ebmjax.recipes.config.errors import Config, WorkdirError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.report import of_run
from ebmjax.recipes.run.compilation import use_compilation_cache
from ebmjax.recipes.run.run import Run, explain_writes
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
      run.USER_ERRORS: the message says what to do.
    """
    started = time.perf_counter()
    use_compilation_cache()
    is_unread = track is not None if mode == "eval" else step is not None
    if is_unread:
        raise WorkdirError("--track needs training, and --step needs --mode=eval: leave it out.")
    if mode == "eval":
        training.on_first(lambda: evaluate_saved(config, folder, config_argument, step))
        return None
    if track is not None:
        training.on_first(lambda: load_service(track))
    name = Path(config_argument.partition(":")[0]).stem
    place = folder or training.from_first(lambda: workdir.default_workdir(name))
    run = Run(config, place, track)
    training.on_first(lambda: workdir.check_writable(run.path))
    run.open()
    print(f"{config_argument} -> {run.path}", about_devices(), sep="\n", flush=True)
    run.build()
    run.trace()
    print(*about(run), sep="\n", flush=True)
    if mode == "all":
        run.check_evaluation()
    plan = run.experiment.plan
    training.on_first(lambda: workdir.check_checkpoints(run.path, plan.checkpoint_every))
    run.begin()
    training.on_first(lambda: workdir.prepare(run.path, config))
    program, *arguments = sys.argv
    command = f"python {shlex.quote(program)}" if program.endswith(".py") else program
    if not folder:
        arguments.append(f"--workdir={run.path}")
    command = " ".join([command, *map(shlex.quote, arguments)])
    with contextlib.ExitStack() as held, explain_writes(run.path):
        training.on_first(lambda: held.enter_context(workdir.only_process(run.path)))
        if training.is_first():
            of_run.record_command(run.path, command, config_argument)
            held.callback(of_run.write, run.path)
            if is_profiled:
                profile = jax.profiler.trace(run.path / "profile", create_perfetto_trace=True)
                held.enter_context(profile)
        result = run.train(command)
        if not isinstance(result, int):
            training.on_first(lambda: finish(run, result, started, mode))
        training.on_first(held.close)
    return result if isinstance(result, int) else None


def finish(run: Run, result: training.FitResult, started: float, mode: str) -> None:
    """Summarises a run that began at ``started``; in the mode "all" evaluates it, too."""
    run.summarise(result, time.perf_counter() - started)
    if mode == "all":
        is_best = run.config.evals.get("checkpoint") == "best"
        run.evaluate(run.restore(run.find(None))[0] if is_best else result.state)


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
    run.check_evaluation()
    print(*run.experiment.about_data, sep="\n", flush=True)
    with workdir.only_process(run.path), explain_writes(run.path):
        state, found = run.restore(found, is_named=step is not None)
        run.evaluate(state, found.is_end)
        of_run.write(run.path)


def about_devices() -> str:
    """Returns the line that says where a run computes."""
    devices = jax.devices()
    number = f"{len(devices)} x " * (len(devices) > 1)
    shared = f" in {jax.process_count()} processes" * (jax.process_count() > 1)
    return f"on {number}{devices[0].device_kind}{shared}, JAX {jax.__version__}"


def about(run: Run) -> list[str]:
    """Returns lines about a run's data, its model and what will happen."""
    made, plan = run.experiment, run.experiment.plan
    num_parameters = sum(leaf.size for leaf in jax.tree.leaves(made.state.params))
    size = plan.streams[0]
    steps_an_epoch = max(len(jax.tree.leaves(made.data)[0]) // size, 1)
    return [
        *made.about_data,
        f"model of {num_parameters:,} parameters",
        f"{plan.total_steps:,} steps of batches of {size}, {steps_an_epoch:,} an epoch; "
        f"measured every {plan.monitor_every:,}, saved every {plan.checkpoint_every:,}; "
        f"{training.make_mesh(plan.num_shards).size} of {jax.device_count()} devices",
    ]
