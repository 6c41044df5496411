"""Builds objects from a configuration: parts that every family shares."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import flax.linen as nn
import jax
import optax

from ebmjax import training
from ebmjax._groups import on_devices
from ebmjax._ranges import MAX_INTEGER
from ebmjax.data import ImageData
from ebmjax.evaluate import Distances
from ebmjax.optim import averaged_parameters
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import find_part
from ebmjax.recipes.evaluators import profile
from ebmjax.recipes.evaluators.evaluations import Evaluations, make_evaluators
from ebmjax.recipes.evaluators.plots import panels
from ebmjax.recipes.evaluators.result_tables import FIDS
from ebmjax.recipes.folder.run_folder import read_rows
from ebmjax.recipes.parts.image_data import Images
from ebmjax.training import Plan, TrainState
from ebmjax.types import PyTree

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"gelu": nn.gelu, "swish": nn.swish}
for slope in (0.05, 0.1, 0.2):
    ACTIVATIONS[f"leaky_relu_{slope}"] = partial(nn.leaky_relu, negative_slope=slope)

SHARD_AXES = ("data", "shard")
"""Axes of a training step over which its shards lie; monitoring and evaluation have neither."""


PANELS = (
    ("loss", ("loss", "cross_entropy", "kl_terms"), "linear"),
    ("accuracy", ("accuracy", "test_accuracy"), "linear"),
    ("calibration", ("test_ece", "test_brier"), "linear"),
    ("network's energy in training, nats", ("positive_energy", "negative_energy"), "linear"),
    ("energy, nats", ("test_energy", "sample_energy"), "linear"),
    ("energy of latents, nats", ("prior_energy", "posterior_energy"), "linear"),
    ("log density, nats", ("test_log_density", "buffer_log_density"), "linear"),
    ("f of data - f of samples, nats", ("energy_gap", "log_density_gap"), "linear"),
    ("log evidence, nats", ("test_log_evidence", "test_trapezium_log_evidence"), "linear"),
    ("squared error, a pixel", ("reconstruction_error", "test_reconstruction_error"), "log"),
    ("variance of gradients", ("coordinate_gradient_variance", "gradient_variance"), "log"),
    ("FID of samples ({extractor})", FIDS, "linear"),
    ("KID of samples ({extractor})", ("sample_kid", "start_kid"), "linear"),
    ("total variation from the data", ("density_tv", "sample_tv"), "linear"),
    ("KL(data || model), nats", ("density_kl",), "log"),
    ("chains", ("chain_acceptance_prob", "positive_weight", "smoothing"), "linear"),
    ("acceptance probability", ("prior_acceptance", "posterior, t = 1"), "linear"),
    ("displacement and step of chains", ("chain_displacement", "chain_step_size"), "log"),
    ("weights", ("effective_sample_fraction", "effective_positive_fraction"), "linear"),
)
"""Panels of ``plots/training.png``: label, numbers of metrics.jsonl, scale."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageModel:
    """A trained model of images, as evaluators see it.

    Attributes:
      config: of the run.
      train: the training images.
      held_out: images held out of training; None without any.
      distances: distances of samples from the training images; None for points.
      class_names: names of the classes, by label; () if they have none.
      is_finished: whether training is over.
      state: of training; None before ``at``.
      trained: the parts of the state that are used; None before ``at``.
      programs: compiled programs of evaluators, shared by the models of all states.
    """

    config: Config
    train: ImageData
    distances: Distances | None
    held_out: ImageData | None = None
    class_names: tuple[str, ...] = ()
    is_finished: bool = False
    state: TrainState | None = None
    trained: Any = None
    programs: dict[Any, Any] = field(default_factory=dict)

    def at(self, state: TrainState | None) -> Self:
        """Returns the model of a state; without one, the model as it is.

        Its parameters are averaged over training where ``optimizer.average_decay`` says so.
        """
        if state is None:
            return self
        is_averaged = self.config.optimizer.average_decay > 0
        params = averaged_parameters(state.opt_state) if is_averaged else state.params
        # From the host: a mesh and a checkpoint then use the same program.
        trained = self.extract_trained(jax.device_get(params), state)
        return replace(self, state=state, trained=on_devices(trained))

    def extract_trained(self, params: PyTree, state: TrainState) -> Any:
        """Returns the parts of a state that are used, of which ``params`` are the parameters."""
        return params

    def program(self, name: Any, make: Callable[[], Any]) -> Any:
        """Returns ``make()``, made once for all states."""
        if name not in self.programs:
            self.programs[name] = make()
        return self.programs[name]

    @property
    def params(self) -> Any:
        """PyTree of its parameters."""
        return self.trained


class Experiment(NamedTuple):
    """Parts of a run that a family provides.

    Attributes:
      state: state before the first step.
      train_step, data, plan: for ``ebmjax.training.fit``.
      monitor: ``(state, step) -> row``, may write into the run's folder.
      draw: draws the plots of the run's folder.
      evaluate: ``state -> report`` for evaluation.json; may write into the run's folder.
      numbers: for ``train_step``: the floats of its parts, and their arrays.
      check_evaluate: raises ConfigError for anything that would stop ``evaluate`` half-way.
      warm_start: function from the folder of another run's checkpoints to this run's start, for
        ``config.train.start_from``.
      use: ``state -> model``, the trained model: see ``ImageModel``.
      about_data: lines that say which data were read and what was done to them.
      config: the configuration with what the images have chosen.
      save: writes what was fitted before training to the run's folder.
    """

    state: TrainState
    train_step: Callable[..., Any]
    data: PyTree
    plan: Plan
    monitor: Callable[[TrainState, int], dict[str, Any]]
    draw: Callable[[], None]
    evaluate: Callable[[TrainState], dict[str, Any]]
    numbers: PyTree = None
    check_evaluate: Callable[[], None] = lambda: None
    warm_start: Callable[[Path], training.WarmStart] | None = None
    use: Callable[[TrainState], Any] | None = None
    about_data: tuple[str, ...] = ()
    config: Config | None = None
    save: Callable[[], None] = lambda: None


def assemble(
    model: ImageModel,
    workdir: Path,
    images: Images,
    *,
    params: PyTree,
    carry: PyTree,
    optimizer: Callable[[PyTree], optax.GradientTransformation],
    numbers: PyTree,
    gradient_fn: training.GradientFn,
    kept: tuple[str, ...],
    draw: Callable[[list[dict[str, Any]]], None] = lambda rows: None,
    gradient_metrics_fn: Callable[[PyTree], Any] = lambda gradients: {},
    **others: Any,
) -> Experiment:
    """Returns the experiment of a model before training, with the evaluators of ``config.evals``.

    A warm start takes the fields ``kept`` of the carry over. ``draw`` takes the rows of
    metrics.jsonl, and draws what is the family's own; ``others`` are of ``Experiment``.
    """
    config, finished = model.config, replace(model, is_finished=True)
    evaluations = Evaluations(
        folder=workdir,
        key=root_keys(config.seed)[2],
        evaluators=make_evaluators(config),
        config=config,
        interval=others["plan"].monitor_every,
        models=(model.at, finished.at),
        tests=(images.monitored, images.evaluated),
    )
    limit = config.loss.get("max_positive_weight")
    first_optimizer = optimizer(numbers["optimizer"])
    state = training.init_state(params, first_optimizer, carry)

    def draw_all() -> None:
        rows, plots = read_rows(workdir), workdir / "plots"
        draw(rows)
        panels(plots / "training.png", rows, PANELS, config)
        profile.draw_panels(plots / "chains.png", profile.read(workdir))

    return Experiment(
        state=state,
        train_step=training.make_train_step(
            gradient_fn,
            optimizer,
            max_abs_loss=config.train.max_abs_loss,
            # No negative competes with the data.
            hold_fn=None if limit is None else lambda found: found["positive_weight"] > limit,
            gradient_metrics_fn=gradient_metrics_fn,
        ),
        draw=draw_all,
        numbers=numbers,
        monitor=evaluations.monitor,
        evaluate=evaluations.evaluate,
        check_evaluate=evaluations.check,
        warm_start=lambda folder: training.warm_start(state, first_optimizer, folder, kept),
        use=finished.at,
        about_data=images.about,
        config=config,
        **others,
    )


def user_optimizer(config: Config, learning_rate: Any) -> optax.GradientTransformation:
    """Returns the optimiser of the user's function ``config.optimizer.name``.

    Args:
      config: of the run.
      learning_rate: schedule, step to rate, that the function takes as ``learning_rate``.

    Raises:
      ConfigError: for whatever the function does wrong.
    """
    part = find_part(config, "optimizer.name", config.optimizer.name, ("learning_rate",))
    made = part.call(learning_rate=learning_rate, **part.options)
    if not all(callable(getattr(made, name, None)) for name in ("init", "update")):
        raise ConfigError(
            f"config.optimizer.name={part.name!r} must return an optax transformation, with init "
            f"and update; got a {type(made).__name__}."
        )
    return made


def plan(config: Config, num_examples: int) -> Plan:
    """Returns the plan, from epochs to steps. Intervals are rounded to whole dispatches.

    An epoch is that of the first stream, ``config.train.batch_size``.
    """
    train, names = config.train, ("batch_size", "positive_batch_size")
    sizes = {name: train[name] for name in names if name in train}
    for name, size in sizes.items():
        if size > num_examples:
            raise ConfigError(
                f"config.train.{name} must be at most the number of training examples, "
                f"{num_examples} after config.data.max_train={config.data.max_train} and "
                f"config.data.holdout={config.data.get('holdout')}; got {size}. "
                "Take a smaller batch, or hold out fewer."
            )
    steps_per_epoch = num_examples // train.batch_size
    total = train.get("max_steps") or train.num_epochs * steps_per_epoch
    if total > MAX_INTEGER:
        raise ConfigError(
            f"config.train.num_epochs={train.num_epochs} makes more than {MAX_INTEGER} steps, with "
            f"{steps_per_epoch} an epoch: take fewer."
        )

    def whole_dispatches(epochs: float) -> int:
        dispatches = round(epochs * steps_per_epoch / train.steps_per_dispatch)
        return train.steps_per_dispatch * max(dispatches, 1)

    return Plan(
        total_steps=total,
        batch_size=tuple(sizes.values()) if len(sizes) > 1 else train.batch_size,
        num_shards=config.mesh.num_shards,
        steps_per_dispatch=train.steps_per_dispatch,
        log_every=train.log_every,
        monitor_every=whole_dispatches(config.evals.every_epochs or total),
        monitor_at_start=config.evals.every_epochs > 0,
        checkpoint_every=whole_dispatches(train.checkpoint_every_epochs),
        max_consecutive_skips=train.max_consecutive_skips,
        data_seed=config.seed,
    )


def root_keys(seed: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns three keys: for parameters, training, and evaluation or monitoring."""
    params_key, train_key, eval_key = jax.random.split(jax.random.key(seed, impl="threefry2x32"), 3)
    return params_key, train_key, eval_key
