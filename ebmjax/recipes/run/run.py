"""A run: one configuration in one folder, from opening the folder to the evaluation."""

import contextlib
import errno
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax

from ebmjax import training
from ebmjax._phases import phase, tell_phases
from ebmjax._ranges import MAX_INTEGER
from ebmjax._versions import versions
from ebmjax.data import DataChangedError, DataUnavailableError
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, WriteError
from ebmjax.recipes.evaluators.result_tables import advice, as_lines, results
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.models import build
from ebmjax.recipes.report import of_run
from ebmjax.recipes.run import states
from ebmjax.recipes.run.machine import use_compilation_cache
from ebmjax.recipes.run.tracking import Progress, TensorBoardWriter

BROKE_OFF = (WriteError, DataChangedError, training.DivergenceError)
"""Errors of a run that had begun; the others leave everything as it was."""

USER_ERRORS = (
    *(ConfigError, WorkdirError, DataUnavailableError, FileNotFoundError, NotADirectoryError),
    *(*BROKE_OFF, *states.DOES_NOT_FIT, training.CheckpointAccessError),
)
"""Errors that the user can mend: commands print the message alone."""

TAKES_NO_MORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EIO)


@contextlib.contextmanager
def explain_writes(path: Path) -> Iterator[None]:
    """Turns an OSError that says the folder takes no more files into a WriteError."""
    try:
        yield
    except OSError as error:
        if error.errno not in TAKES_NO_MORE:
            raise
        text = (
            f"--workdir {path} could not be written any more: {error.strerror}. What was saved "
            "before is safe. Make room, or mend the permissions, and give the same command again."
        )
        is_said = isinstance(error, training.CheckpointAccessError)
        raise WriteError(str(error) if is_said else text) from error


class Run:
    """One configuration, checked when it was read (``families.check``), in a folder, new or not.

    ``recoveries`` are what the run did where it diverged, the first one first.
    """

    def __init__(self, config: Config, folder: str | Path):
        self.config, self.path = config, Path(folder).expanduser()
        self.recoveries: list[dict[str, Any]] = []

    @cached_property
    def experiment(self) -> build.Experiment:
        """Experiment of the configuration as it is ``now``; built unless it is set."""
        return self.build()

    @property
    def now(self) -> Config:
        """A copy of the configuration, with all that the recoveries changed."""
        config = self.config.copy_and_resolve_references()
        for one in self.recoveries:
            changes = {name: new for name, (_, new) in one["changes"].items()}
            config.update_from_flattened_dict(changes)
        return config

    def build(self, is_training: bool = False) -> build.Experiment:
        """Builds the experiment of the configuration as it is ``now``.

        To train, it also traces a step, because some mistakes show only then, and takes the state
        of the run that ``config.train.start_from`` names.

        Raises:
          ConfigError: if the configuration does not fit together, or its images.
          DataUnavailableError, OSError: if the data cannot be had as configured.
        """
        config = self.now
        try:
            with phase("building the model and its data"):
                made = families.module(config.family, "setup").build(config, self.path)
            if is_training:
                key = build.root_keys(config.seed)[1]
                shapes = key, made.state, made.train_step, made.data, made.plan
                with phase("checking the data and tracing the step"):
                    training.check_fits(*shapes, numbers=made.numbers)
        except USER_ERRORS:
            raise
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the configuration does not fit together: {error}") from error
        if is_training and config.train.get("start_from"):
            start = states.warm_start(config, self.path, made)
            made = made if start is None else made._replace(state=start.state)
        return made

    def train(self, command: str) -> training.FitResult | int:
        """Trains, prints how it ended, and returns the result or the signal that interrupted it.

        ``command`` continues the run then. DivergenceError says that it does not recover.
        """
        while True:
            try:
                result = self._fit()
                break
            except training.DivergenceError as error:
                now = self.experiment.config or self.now
                self.recoveries = states.go_back(self.path, now, self.recoveries, error)
                if error.signum is not None:
                    print(f"Interrupted. Continue with:\n  {command}")
                    return error.signum
            self.experiment = self.build(is_training=True)
        step, total = int(result.state.step), self.experiment.plan.total_steps
        if result.signum is not None:
            print(f"Interrupted at step {step} of {total}; saved. Continue with:\n  {command}")
            return result.signum
        if result.first_step == total:
            print("This run had finished already: nothing was trained, its plots are drawn again.")
        return result

    def _fit(self) -> training.FitResult:
        """Trains from the newest checkpoint."""
        config, made, num = self.config, self.experiment, len(self.recoveries)
        key, about = build.root_keys(config.seed)[1], {"config": run_folder.as_json(config)}
        monitor, kept = made.monitor, config.train.get("keep_best")
        if kept:
            monitor = states.keep_best(monitor, self.path / "best", kept, about)
        with (
            contextlib.closing(training.JsonlWriter(self.path / "metrics.jsonl")) as rows,
            contextlib.closing(TensorBoardWriter(self.path)) as events,
        ):
            return training.fit(
                # Beyond all steps, so no key is used twice.
                jax.random.fold_in(key, MAX_INTEGER + 1 + num) if num else key,
                made.state,
                made.train_step,
                made.data,
                made.plan,
                numbers=made.numbers,
                checkpoints=training.Checkpoints(self.path / "checkpoints", about=about),
                writers=[rows, events, Progress(made.plan.total_steps)],
                monitor=monitor,
            )

    def open(self, step: int | None) -> tuple[training.TrainState, run_folder.Saved]:
        """Returns a saved state and where it was found (``find_saved``); the folder stays as it is.

        If the newest checkpoint is damaged, it is the newest intact one, unless a step is named.

        Raises:
          WorkdirError: if there is no such state.
          CheckpointMismatchError, CheckpointDamagedError: see ``Checkpoints.restore_latest``; the
            first also if the run was trained on other data.
        """
        self.recoveries = states.read_recoveries(self.path, self.config)
        found = run_folder.find_saved(self.path, self.config, step)
        text = f"{self.path}: {found}; reading its data and making its model"
        with phase(text, default="stderr"):
            made = self.experiment
        # Points of a law are what the configuration says; their last bits depend on the machine.
        if not families.is_points(self.config) or self.config.data.name == "points":
            training.check_same_data(found.meta, found.newest, training.digest_data(made.data))
        folder = self.path / ("best" if found.is_best else "checkpoints")
        with (
            phase(f"reading the state of step {found.step:,}"),
            training.Checkpoints(folder, is_read_only=True) as checkpoints,
        ):
            if step is not None:
                return checkpoints.restore(made.state, step)[0], found
            restored = checkpoints.restore_latest(made.state)
        assert restored is not None  # ``find_saved`` has seen one
        found_step = int(restored[0].step)
        if found_step < found.step:
            print(f"checkpoint {found.step} is damaged; step {found_step} is used", flush=True)
        return restored[0], found._replace(step=found_step)

    def finish(self, result: training.FitResult, started: float, is_evaluated: bool) -> None:
        """Ends a run that began at ``started``: plots, summary.json, and the evaluation if asked.

        The seconds of training are without the steps that recoveries undid.
        """
        made, seconds = self.experiment, time.perf_counter() - started
        with phase("drawing plots"):
            made.draw()
        wall, compiling = result.wall_seconds, result.compile_seconds
        summary: dict[str, Any] = {
            **result.row,
            "steps": int(result.state.step),
            **self._origin(result.state),
            "wall_seconds": round(wall, 3),
            "compile_seconds": round(compiling, 3),
            "run_seconds": round(wall - compiling, 3),
            "data_sha256": result.data_sha256,
            "data": list(made.about_data),
        }
        if made.config is not None:
            summary["extractor"] = families.extractor_name(made.config)
        if self.config.train.get("on_divergence") == "recover":
            summary["recoveries"] = self.recoveries
        run_folder.write_json(self.path / "summary.json", summary)
        print(
            f"Done in {seconds:.0f} s, of which compiling took {compiling:.0f} s.",
            as_lines(results(summary)),
            *advice(summary),
            f"Numbers in {self.path}/summary.json, plots in {self.path}/plots",
            sep="\n",
        )
        if is_evaluated:
            is_best = self.config.evals.get("checkpoint") == "best"
            self.evaluate(self.open(None)[0] if is_best else result.state)

    def _origin(self, state: training.TrainState) -> dict[str, Any]:
        """Returns what says by which code, on what and from which seed parameters came."""
        return {
            "seed": self.config.seed,
            "versions": versions(),
            "revision": run_folder.revision(),
            "devices": [str(device.device_kind) for device in jax.devices()],
            "params_sha256": training.tree_digest(state.params),
        }

    def evaluate(self, state: training.TrainState, is_finished: bool = True) -> None:
        """Evaluates ``state``, the outcome of a finished run or not; writes and prints its numbers.

        "per_image" of a report goes to per_image.npz, and its errors into the report. So do
        warnings of numbers that could not be measured.
        """
        path, config, experiment = self.path, self.config, self.experiment
        started = time.perf_counter()
        with (
            phase(f"evaluating step {int(state.step):,}"),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always", UserWarning)
            report = experiment.evaluate(jax.device_get(state))
        report["warnings"] = [str(one.message) for one in caught]
        if "per_image" in report:
            report["test_set_error"] = run_folder.write_per_image(path, report.pop("per_image"))
        is_held_out = (experiment.config or config).get("data", {}).get("holdout")
        is_held_out = is_held_out and not config.evals.get("use_test_split")
        report |= {
            "step": int(state.step),
            "is_finished": is_finished,
            "evals": run_folder.as_json(config)["evals"],
            "split": "validation" if is_held_out else "test",
            **self._origin(state),
            "evaluation_seconds": round(time.perf_counter() - started, 3),
        }
        run_folder.write_json(path / "evaluation.json", report)
        print(
            f"Evaluated step {report['step']} in {report['evaluation_seconds']:.0f} s.",
            *(f"warning: {text}" for text in report["warnings"]),
            *filter(None, [as_lines(results(report))]),
            f"Numbers in {path}/evaluation.json, plots in {path}/plots",
            sep="\n",
        )


@tell_phases("stdout")
def launch(
    config: Config, name: str, folder: str | None, mode: str = "train", step: int | None = None
) -> int | None:
    """Runs ``config`` to its end in ``folder``; returns the signal that ended it early, or None.

    ``name`` is CONFIG[:VARIANT]. ``mode`` "eval" only evaluates the run of ``folder``, at ``step``
    or at its newest or best state; "all" trains and evaluates.

    Raises:
      USER_ERRORS: the message says what to do.
    """
    started = time.perf_counter()
    use_compilation_cache()
    if mode == "eval":
        evaluate_saved(config, folder, name, step)
        return None
    if step is not None:
        raise WorkdirError("--step needs --mode=eval: leave it out.")
    now = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    run = Run(config, folder or f"runs/{Path(name.partition(':')[0]).stem}/{now}")
    run_folder.check_writable(run.path)
    run_folder.check(run.path, config)
    run.recoveries = states.read_recoveries(run.path, config)
    run.experiment = run.build(is_training=True)
    print(about_devices(), *about(run.experiment), sep="\n", flush=True)
    if mode == "all":
        run.experiment.check_evaluate()
    run_folder.prepare(run.path, config)
    run.experiment.save()
    print(f"{name} -> {run.path}", flush=True)
    program, *arguments = sys.argv
    program = f"python {shlex.quote(program)}" if program.endswith(".py") else program
    place = [] if folder else [f"--workdir={run.path}"]
    command = f"{program} {shlex.join([*arguments, *place])}"
    with explain_writes(run.path), contextlib.ExitStack() as held:
        held.enter_context(run_folder.only_process(run.path))
        run_folder.write_json(run.path / "command.json", {"command": command, "config": name})
        held.push(partial(of_run.write_at_exit, run.path))
        result = run.train(command)
        if not isinstance(result, int):
            run.finish(result, started, mode == "all")
    return result if isinstance(result, int) else None


def evaluate_saved(config: Config, folder: str | None, name: str, step: int | None = None) -> None:
    """Evaluates the state of ``step`` of the run in ``folder``, else its newest or best."""
    if folder is None:
        raise WorkdirError("--mode=eval needs --workdir=FOLDER, the folder of a run.")
    run = Run(config, folder)
    run_folder.check(run.path, config, "evals.")
    run_folder.check_writable(run.path)
    print(f"{name} -> {run.path}", about_devices(), sep="\n", flush=True)
    state, found = run.open(step)
    run.experiment.check_evaluate()
    print(*run.experiment.about_data, sep="\n", flush=True)
    with run_folder.only_process(run.path), explain_writes(run.path):
        run.evaluate(state, found.is_end)
        of_run.write(run.path)


def about_devices() -> str:
    """Returns the line that says where a run computes."""
    devices = jax.devices()
    number = f"{len(devices)} x " * (len(devices) > 1)
    return f"on {number}{devices[0].device_kind}, JAX {jax.__version__}"


def about(made: build.Experiment) -> list[str]:
    """Returns lines about a run's data, its model and what will happen."""
    plan, end, size = made.plan, made.plan.total_steps, made.plan.streams[0]
    num_parameters = sum(leaf.size for leaf in jax.tree.leaves(made.state.params))
    steps_an_epoch = max(len(jax.tree.leaves(made.data)[0]) // size, 1)
    return [
        *made.about_data,
        f"model of {num_parameters:,} parameters",
        f"{end:,} steps of batches of {size}, {steps_an_epoch:,} an epoch; "
        f"measured every {min(plan.monitor_every, end):,}, saved every {plan.checkpoint_every:,}; "
        f"{training.make_mesh(plan.num_shards).size} of {jax.device_count()} devices",
    ]
