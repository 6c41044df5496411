"""A run: one configuration in one folder, from opening the folder to its trained state."""

import functools
import signal
from pathlib import Path

import jax

from ebmjax import training
from ebmjax._phases import phase
from ebmjax._ranges import MAX_INTEGER
from ebmjax.recipes.config import families
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import Config, flatten
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.run_folder import as_json, identity
from ebmjax.recipes.folder.saved_state import Saved, find_saved
from ebmjax.recipes.models import build
from ebmjax.recipes.run import best, recover, start_from
from ebmjax.recipes.run.explain import explain_by_fields
from ebmjax.recipes.run.tracking import Progress, ServiceWriter, TensorBoardWriter
from ebmjax.types import Key

NUM_KEPT = {"stop": 3, "recover": 5}
"""Checkpoints that a run keeps: with more it can go back further."""

ABOVE_STEPS = MAX_INTEGER + 1
"""Folded into the run's key at a recovery: larger than any step, so no key is used twice."""


class Run:
    """One configuration in one folder.

    Args:
      config: as the run was given it, and checked when it was read (``families.check``).
      folder: the run's folder, new or not.
      track: service that training is sent to, see ``services``; None for none.

    Attributes:
      path: the folder.
      recoveries: what the run did where it diverged, the first one first.
      experiment: of the configuration with all remedies; ``build`` makes it.
    """

    experiment: build.Experiment

    def __init__(self, config: Config, folder: str | Path, track: str | None = None):
        self.config, self.path, self.track = config, Path(folder).expanduser(), track
        self.recoveries: list[recover.Recovery] = []

    @property
    def now(self) -> Config:
        """A copy of the configuration, with all that the recoveries changed."""
        config = self.config.copy_and_resolve_references()
        for one in self.recoveries:
            config.update_from_flattened_dict({name: new for name, (_, new) in one.changes.items()})
        return config

    def open(self) -> None:
        """Checks the folder against the configuration, and reads its recoveries."""

        def look() -> list[recover.Recovery]:
            workdir.check(self.path, self.config)
            return recover.read(self.path, self.config)

        self.recoveries = training.from_first(look)

    def find(self, step: int | None) -> Saved:
        """Returns the state to use (``find_saved``); reads the recoveries, and writes nothing."""
        self.recoveries = recover.read(self.path, self.config)
        return find_saved(self.path, self.config, step)

    def build(self) -> build.Experiment:
        """Builds the experiment, with all remedies so far.

        Raises:
          ConfigError: if the configuration does not fit together, or its images.
          DataUnavailableError, OSError: if the data cannot be had as configured.
        """
        config = self.now
        with explain_by_fields(config):
            if self.recoveries:
                families.check(config)  # a remedy may have left a range
            with phase("building the model and its data"):
                self.experiment = families.module(config.family, "setup").build(config, self.path)
        return self.experiment

    def trace(self) -> None:
        """Traces the training step, because some mistakes show only then."""
        made, key = self.experiment, build.root_keys(self.config)[1]
        with explain_by_fields(self.now):
            training.check_fits(
                key, made.state, made.train_step, made.data, made.plan, numbers=made.numbers
            )

    def prepare(self) -> training.WarmStart | None:
        """Makes or checks the folder; returns the start from another run, if there is one."""
        workdir.check_checkpoints(self.path, self.experiment.plan.checkpoint_every)
        start = self.warm_start()
        workdir.prepare(self.path, self.config)
        return start

    def warm_start(self) -> training.WarmStart | None:
        """Returns the start from another run, if there is one and this has not begun."""
        return start_from.warm_start(self.config, self.path, self.experiment)

    def begin(self, start: training.WarmStart | None) -> None:
        """Takes the state of another run for the first one."""
        if start is not None:
            self.experiment = self.experiment._replace(state=start.state)

    def checkpoints(self) -> training.Checkpoints:
        """Returns the checkpoints."""
        num_kept = NUM_KEPT[self.config.train.get("on_divergence", "stop")]
        return training.Checkpoints(
            self.path / "checkpoints", max_to_keep=num_kept, about=identity(self.config)
        )

    def train_key(self) -> Key:
        """Returns the key of training after the recoveries so far."""
        key = build.root_keys(self.config)[1]
        if not self.recoveries:
            return key
        return jax.random.fold_in(key, ABOVE_STEPS + len(self.recoveries))

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
                now = self.experiment.config or self.now
                state = self.path, now, self.recoveries, self.checkpoints, error
                self.recoveries = training.from_first(functools.partial(recover.go_back, *state))
                if error.signum is not None:
                    print(f"Interrupted. Continue with:\n  {command}")
                    return error.signum
            self.build()
            self.trace()
            # Once more the other run's, if it begins at step 0 again.
            self.begin(training.on_first(self.warm_start))

    def _fit(self, command: str) -> training.FitResult | int:
        """Trains from the newest checkpoint; see ``train``."""
        config, made, plan = self.config, self.experiment, self.experiment.plan
        num_used = training.make_mesh(plan.num_shards).size
        if num_used < jax.device_count():
            print(
                f"Using {num_used} of {jax.device_count()} devices: they must divide "
                f"config.mesh.num_shards={plan.num_shards}. For more, set "
                f"--config.mesh.num_shards={jax.device_count()} and a config.train.batch_size that "
                "it divides."
            )
        writers: list[training.Writer] = [
            recover.Rows(self.path, self.recoveries),
            TensorBoardWriter(self.path),
            Progress(plan.total_steps),
        ]
        if self.track:
            writers.append(ServiceWriter(self.track, self.path, flatten(as_json(self.now))))
        monitor, kept = made.monitor, config.train.get("keep_best")
        if kept and training.is_first():
            monitor = best.KeepBest(monitor, self.path, kept, made.state, identity(config))
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
        except KeyboardInterrupt:
            print(
                f"Interrupted before a safe point. From the last one it goes on with:\n  {command}"
            )
            return signal.SIGINT
        finally:
            for writer in writers:
                writer.close()
        recover.check_end(config, result)
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

    def restore(self, found: Saved, is_named: bool = False) -> tuple[training.TrainState, Saved]:
        """Returns a state and where it was found; nothing in the folder is changed.

        If the newest checkpoint is damaged, it is the newest intact one, unless a step is named.

        Raises:
          WorkdirError: see ``best.restore``.
          CheckpointMismatchError, CheckpointDamagedError: see ``Checkpoints.restore_latest``; the
            first also if the run was trained on other data.
        """
        data, template = self.config.data, self.experiment.state
        # Points of a law are what the configuration says; their last bits depend on the machine.
        if not is_points(self.config) or data.name == "points":
            images, digest = self.experiment.data, training.digest_data
            training.check_same_data(found.meta, found.newest, digest(images))
        if found.is_best:
            return best.restore(self.path, template), found
        with training.Checkpoints(self.path / "checkpoints", is_read_only=True) as checkpoints:
            if is_named:
                return checkpoints.restore(template, found.step)[0], found
            restored = checkpoints.restore_latest(template)
        assert restored is not None  # ``find_saved`` has seen one
        step = int(restored[0].step)
        if step < found.step:
            print(f"checkpoint {found.step} is damaged; step {step} is used", flush=True)
        return restored[0], found._replace(step=step)
