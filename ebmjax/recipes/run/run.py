"""A run: one configuration in one folder, from opening the folder to the evaluation."""

import contextlib
import errno
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ebmjax import training
from ebmjax._phases import phase
from ebmjax._ranges import MAX_INTEGER
from ebmjax._versions import versions
from ebmjax.data import DataChangedError, DataUnavailableError
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, WriteError, flatten
from ebmjax.recipes.config.families import extractor_name, is_points
from ebmjax.recipes.evaluators.result_tables import advice, as_lines, evaluation_results, results
from ebmjax.recipes.folder import per_image, run_folder, workdir
from ebmjax.recipes.models import build
from ebmjax.recipes.run import states
from ebmjax.recipes.run.tracking import Progress, ServiceWriter, TensorBoardWriter
from ebmjax.types import Key

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
"""Errors that the user can mend: commands print the message alone."""

BROKE_OFF = (WriteError, DataChangedError, training.DivergenceError)
"""Errors of a run that had begun; the others leave everything as it was."""

TAKES_NO_MORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EIO)

ABOVE_STEPS = MAX_INTEGER + 1
"""Folded into the run's key at a recovery: larger than any step, so no key is used twice."""


@contextlib.contextmanager
def explain_fields() -> Iterator[None]:
    """Turns the library's errors into errors of a configuration."""
    try:
        yield
    except USER_ERRORS:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the configuration does not fit together: {error}") from error


@contextlib.contextmanager
def explain_writes(path: Path) -> Iterator[None]:
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


class Run:
    """One configuration in one folder.

    Args:
      config: as the run was given it, and checked when it was read (``families.check``).
      folder: the run's folder, new or not.
      track: service that training is sent to, see ``tracking.SERVICES``; None for none.

    Attributes:
      path: the folder.
      recoveries: what the run did where it diverged, the first one first.
      experiment: of the configuration with all that the recoveries changed; ``build`` makes it.
    """

    experiment: build.Experiment

    def __init__(self, config: Config, folder: str | Path, track: str | None = None):
        self.config, self.path, self.track = config, Path(folder).expanduser(), track
        self.recoveries: list[states.Recovery] = []

    @property
    def now(self) -> Config:
        """A copy of the configuration, with all that the recoveries changed."""
        config = self.config.copy_and_resolve_references()
        for one in self.recoveries:
            config.update_from_flattened_dict({name: new for name, (_, new) in one.changes.items()})
        return config

    def open(self) -> None:
        """Checks the folder against the configuration, and reads its recoveries."""
        training.on_first(lambda: workdir.check(self.path, self.config))
        self.recoveries = training.from_first(self._read_recoveries)

    def _read_recoveries(self) -> list[states.Recovery]:
        return states.read_recoveries(self.path, self.config)

    def find(self, step: int | None) -> run_folder.Saved:
        """Returns the state to use (``find_saved``); reads the recoveries, and writes nothing."""
        self.recoveries = self._read_recoveries()
        return run_folder.find_saved(self.path, self.config, step)

    def build(self) -> build.Experiment:
        """Builds the experiment of the configuration as it is ``now``.

        Raises:
          ConfigError: if the configuration does not fit together, or its images.
          DataUnavailableError, OSError: if the data cannot be had as configured.
        """
        config = self.now
        with explain_fields(), phase("building the model and its data"):
            if self.recoveries:
                families.check(config)  # a smaller step may have left its range
            self.experiment = families.module(config.family, "setup").build(config, self.path)
        return self.experiment

    def trace(self) -> None:
        """Traces the training step, because some mistakes show only then."""
        made, key = self.experiment, build.root_keys(self.config.seed)[1]
        with explain_fields():
            training.check_fits(
                key, made.state, made.train_step, made.data, made.plan, numbers=made.numbers
            )

    def begin(self) -> None:
        """Takes the state of the run that ``config.train.start_from`` names for the first one."""
        start = training.on_first(
            lambda: states.warm_start(self.config, self.path, self.experiment)
        )
        if start is not None:
            self.experiment = self.experiment._replace(state=start.state)

    def checkpoints(self) -> training.Checkpoints:
        """Returns the checkpoints."""
        about = run_folder.identity(self.config)
        return training.Checkpoints(self.path / "checkpoints", about=about)

    def train_key(self) -> Key:
        """Returns the key of training after the recoveries so far."""
        key = build.root_keys(self.config.seed)[1]
        num = len(self.recoveries)
        return jax.random.fold_in(key, ABOVE_STEPS + num) if num else key

    def train(self, command: str) -> training.FitResult | int:
        """Trains, recovers where the configuration says so, and prints how it ended.

        Returns:
          The result of a run at its end, or the signal that interrupted it. ``command`` continues
          the run then.

        Raises:
          DivergenceError: if the run diverged and does not recover.
        """
        while True:
            try:
                return self._fit(command)
            except training.DivergenceError as error:
                self.recoveries = training.from_first(partial(self._go_back, error))
                if error.signum is not None:
                    print(f"Interrupted. Continue with:\n  {command}")
                    return error.signum
            self.build()
            self.trace()
            self.begin()  # once more, if it begins at step 0 again

    def _go_back(self, error: training.DivergenceError) -> list[states.Recovery]:
        now = self.experiment.config or self.now
        return states.go_back(self.path, now, self.recoveries, self.checkpoints(), error)

    def _fit(self, command: str) -> training.FitResult | int:
        """Trains from the newest checkpoint; see ``train``."""
        config, made, plan = self.config, self.experiment, self.experiment.plan
        writers: list[training.Writer] = [
            training.JsonlWriter(self.path / "metrics.jsonl"),
            TensorBoardWriter(self.path),
            Progress(plan.total_steps),
        ]
        if self.track and training.is_first():
            fields = flatten(run_folder.as_json(self.now))
            writers.append(ServiceWriter(self.track, self.path, fields))
        monitor, kept = made.monitor, config.train.get("keep_best")
        if kept and training.is_first():
            about = run_folder.identity(config)
            monitor = states.KeepBest(monitor, self.path / states.BEST, kept, made.state, about)
        try:
            result = training.fit(
                self.train_key(),
                made.state,
                made.train_step,
                made.data,
                plan,
                numbers=made.numbers,
                checkpoints=self.checkpoints(),
                writers=writers,
                monitor=monitor,
                placement=build.placement(config),
            )
        finally:
            for writer in writers:
                writer.close()
        step = int(result.state.step)
        if result.signum is not None:
            print(
                f"Interrupted at step {step} of {plan.total_steps}; saved. Continue with:\n"
                f"  {command}"
            )
            return result.signum
        if result.first_step == plan.total_steps:
            print("This run had finished already: nothing was trained, its plots are drawn again.")
        return result

    def restore(
        self, found: run_folder.Saved, is_named: bool = False
    ) -> tuple[training.TrainState, run_folder.Saved]:
        """Returns a state and where it was found; nothing in the folder is changed.

        If the newest checkpoint is damaged, it is the newest intact one, unless a step is named.

        Raises:
          CheckpointMismatchError, CheckpointDamagedError: see ``Checkpoints.restore_latest``; the
            first also if the run was trained on other data.
        """
        template = self.experiment.state
        # Points of a law are what the configuration says; their last bits depend on the machine.
        if not is_points(self.config) or self.config.data.name == "points":
            digest = training.digest_data(self.experiment.data)
            training.check_same_data(found.meta, found.newest, digest)
        folder = self.path / (states.BEST if found.is_best else "checkpoints")
        with training.Checkpoints(folder, is_read_only=True) as checkpoints:
            if is_named:
                return checkpoints.restore(template, found.step)[0], found
            restored = checkpoints.restore_latest(template)
        assert restored is not None  # ``find_saved`` has seen one
        step = int(restored[0].step)
        if step < found.step:
            print(f"checkpoint {found.step} is damaged; step {step} is used", flush=True)
        return restored[0], found._replace(step=step)

    def summarise(self, result: training.FitResult, sitting_seconds: float) -> None:
        """Draws a run that trained to its end, writes summary.json and prints where things are.

        The seconds include the steps that recoveries undid.
        """
        made, lost = self.experiment, self.recoveries
        with phase("drawing plots"):
            made.draw()
        wall = result.wall_seconds + sum(one.lost_seconds for one in lost)
        compiling = result.compile_seconds + sum(one.lost_compile_seconds for one in lost)
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
            summary["extractor"] = extractor_name(made.config)
        if self.config.train.get("on_divergence") == "recover":
            summary["recoveries"] = [one._asdict() for one in lost]
        workdir.write_json(self.path / "summary.json", summary)
        print(
            f"Done in {sitting_seconds:.0f} s, of which compiling took {compiling:.0f} s.",
            as_lines(results(summary)),
            *advice(summary),
            f"Numbers in {self.path}/summary.json, plots in {self.path}/plots",
            sep="\n",
        )

    def _origin(self, state: training.TrainState) -> dict[str, Any]:
        """Returns what says by which code, on what and from which seed parameters came."""
        return {
            "seed": self.config.seed,
            "versions": versions(),
            "revision": workdir.revision(),
            "devices": [str(device.device_kind) for device in jax.devices()],
            "params_sha256": training.tree_digest(state.params),
        }

    def check_evaluation(self) -> None:
        """Raises ConfigError if the family has no full evaluation, or it could not finish.

        It runs before training, so that a mistake in ``config.evals`` shows early.
        """
        if self.experiment.evaluate is None:
            raise ConfigError(
                f"config.family={self.config.family!r} has no evaluation beyond that of its "
                "training, whose numbers are in summary.json: use --mode=train."
            )
        self.experiment.check_evaluate()

    def evaluate(self, state: training.TrainState, is_finished: bool = True) -> None:
        """Evaluates ``state``, writes evaluation.json and prints its numbers.

        ``is_finished`` says whether that is the outcome of a finished run. "per_image" of a report
        goes to per_image.npz, and its errors into the report. So do warnings of numbers that could
        not be measured.
        """
        path, config, experiment = self.path, self.config, self.experiment
        assert experiment.evaluate is not None  # ``check_evaluation`` refuses None
        started = time.perf_counter()
        (path / "plots").mkdir(exist_ok=True)
        with (
            phase(f"evaluating step {int(state.step):,}"),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always", UserWarning)
            report = experiment.evaluate(jax.device_get(state))
        report["warnings"] = [str(one.message) for one in caught]
        if "per_image" in report:
            report["test_set_error"] = per_image.write(path, report.pop("per_image"))
        report |= {
            "step": int(state.step),
            "is_finished": is_finished,
            "evals": run_folder.as_json(config)["evals"],
            **self._origin(state),
            "evaluation_seconds": round(time.perf_counter() - started, 3),
        }
        if "data" in config:  # toy families have fresh points in place of a split
            is_held_out = (experiment.config or config).data.get("holdout")
            is_held_out = is_held_out and not config.evals.use_test_split
            report["split"] = "validation" if is_held_out else "test"
        workdir.write_json(path / "evaluation.json", report)
        print(
            f"Evaluated step {report['step']} in {report['evaluation_seconds']:.0f} s.",
            *(f"warning: {text}" for text in report["warnings"]),
            *filter(None, [as_lines(evaluation_results(report))]),
            f"Numbers in {path}/evaluation.json, plots in {path}/plots",
            sep="\n",
        )
