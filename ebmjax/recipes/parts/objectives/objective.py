"""Objectives that configurations name: their signatures are their fields."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data, losses
from ebmjax._ranges import one_of_or_function
from ebmjax.learning import Density, NoiseLevels, Samples
from ebmjax.recipes.config.declare import Field, field, read_fields, under, when_is
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part, is_users
from ebmjax.recipes.parts.objectives import chainless, denoising, with_chains
from ebmjax.types import Key, Metrics

TILTED = "tilted_langevin"

OBJECTIVES: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        with_chains.contrastive_divergence,
        with_chains.improved,
        with_chains.beta,
        with_chains.svgd,
        denoising.denoising,
        denoising.denoising_levels,
        denoising.diffusion_recovery,
        chainless.score_matching,
        chainless.energy_discrepancy,
        chainless.noise_contrastive,
        chainless.energy_matching,
    )
}
"""Functions ``(key, model, batch, negatives, *, FIELD=DEFAULT, ...) -> (loss, metrics)``, by name.

Those without ``negatives`` need no chains; theirs are the fields ``loss.<name>.<field>``, and those
of the others ``loss.<field>``."""

MODELS = {"improved": "energy", "svgd": "joint"}
"""Objectives of one kind of model alone."""

LEVELS = ("denoising_levels", "diffusion_recovery")
"""Objectives whose model is of (x, noise); they are fitted to ``NoiseLevels``."""

OF_SCORES = ("denoising", "denoising_levels", "score_matching", "energy_matching")
"""Objectives whose losses hold gradients of the energy, which training differentiates again."""


def find_objective(name: str) -> Callable[..., Any]:
    """Returns the function that ``config.loss.name`` names, ours or the user's."""
    return find_function("loss.name", name) if is_users(name) else OBJECTIVES[name]


def draws(name: str) -> bool:
    """Returns whether an objective compares the data with samples of chains."""
    return "negatives" in inspect.signature(find_objective(name)).parameters


def fields(model: str, text: str = "objective") -> dict[str, Field]:
    """Returns ``loss.name`` and the fields of objectives of a model, "energy" or "joint"."""
    names = [name for name in OBJECTIVES if MODELS.get(name, model) == model]
    made = {"loss.name": field(names[0], one_of_or_function(*names), text)}
    for name in names:
        function = OBJECTIVES[name]
        own = read_fields(function) | read_fields(getattr(function, "fit", function))
        section = "loss" if draws(name) else f"loss.{name}"
        own = {f"{section}.{key}": one for key, one in own.items()}
        made |= under(own, when_is("loss.name", name))
    return made


def warn_of_objective(config: Config) -> tuple[str, ...]:
    """Returns a line where the objective of ``config.loss`` wants a smooth activation."""
    name, activation = config.loss.name, config.model.get("activation", "")
    if name not in OF_SCORES or "relu" not in activation or config.model.get("factory"):
        return ()
    return (
        f"warning: config.loss.name={name} needs second derivatives, of which "
        f"config.model.activation={activation} has none: set --config.model.activation=swish",
    )


def check_objective(config: Config) -> None:
    """Raises ConfigError if the fields of ``config.loss.name`` do not go with others."""
    section, name = config.loss, config.loss.name
    if not draws(name):
        _check_tilted(config)
    if name == "energy_matching":
        own = section.energy_matching
        if own.num_steps * own.step_size < 1:
            raise ConfigError(
                "config.loss.energy_matching.num_steps times step_size must be at least 1, when "
                f"noise reaches the data; got {own.num_steps} * {own.step_size:g}: take longer "
                "chains."
            )
    if name == "beta":
        lowest = min(
            section.beta, section.beta if section.beta_start is None else section.beta_start
        )
        if lowest < 0 and not section.allow_negative:
            raise ConfigError(
                f"config.loss.beta and config.loss.beta_start must be 0 or more, got {lowest}. "
                "Negative ones are for samplers that overshoot: --config.loss.allow_negative=True."
            )
        size = "positive_batch_size" if "positive_batch_size" in config.train else "batch_size"
        if section.beta_variant == "true_objective" and config.train[size] % 2:
            raise ConfigError(
                f"config.train.{size} must be even for config.loss.beta_variant=true_objective, "
                f"which halves it, got {config.train[size]}."
            )


def _check_tilted(config: Config) -> None:
    """Refuses chains of q exp(f / T) for an objective without chains, which trains exp(f)."""
    if TILTED in (config.sampler.get("name"), *config.sampler.get("names", ())):
        field, value = ("name", "mala") if "name" in config.sampler else ("names", "'(\"mala\",)'")
        raise ConfigError(
            f"config.loss.name={config.loss.name} trains the density exp(f) without chains, and "
            f"{TILTED} samples q exp(f / T), q a Gaussian of the images: set "
            f"--config.sampler.{field}={value} --config.sampler.mala.noise_scale=None "
            "--config.sampler.mala.temperature=1 --config.sampler.mala.step_size=1e-4."
        )


def make_loss(
    config: Config, train: data.ImageData, total_steps: int = 0
) -> tuple[Callable[..., tuple[jax.Array, Metrics]], dict[str, Any]]:
    """Returns the loss of ``config.loss``, and its numbers, see ``learning.Objective``.

    An objective of ours is given its fields, and those of "smoothing", "step", "total_steps" and
    "fitted", the result of its ``fit``, that it takes.

    With chains it has the penalty on the network's squared log densities, whatever the smoothing:
    where that adapts, the weight of the penalty stays. The beta of several samplers also reports
    "negative_weight_<sampler>", the share of the weights that its chains have.
    """
    name, names = config.loss.name, config.sampler.get("names", ())
    objective = _users(config) if is_users(name) else find_objective(name)
    fields = dict(config.loss)
    if not draws(name):
        fields |= fields.get(name, {})
    taken = () if is_users(name) else inspect.signature(objective).parameters
    general = {"energy_l2", "max_gap"}
    numbers = {key: value for key, value in fields.items() if key in {*taken, *general}}
    if "fitted" in taken:
        numbers["fitted"] = _fit(config, train, total_steps)

    def loss(
        key: Key,
        model: Density,
        batch: Samples,
        negatives: Samples | None,
        numbers: Mapping[str, Any],
    ) -> tuple[jax.Array, Metrics]:
        given = {**numbers, "total_steps": total_steps}
        options = {name: given[name] for name in taken if name in given}
        if negatives is None:
            return objective(key, model, batch, **options)
        value, metrics = objective(key, model, batch, negatives, **options)
        positive, negative = -jnp.mean(batch.f), -jnp.mean(negatives.f)
        if numbers["max_gap"] is not None:
            # 1 where data and samples have equal energies, 0 from the largest gap on.
            fade = jnp.clip(1.0 - (negative - positive) / numbers["max_gap"], 0.0, 1.0)
            value *= jax.lax.stop_gradient(fade)
        penalty = losses.energy_penalty(numbers["energy_l2"], batch.f, negatives.f)
        metrics = {
            **metrics,
            "positive_energy": positive,
            "negative_energy": negative,
            "energy_gap": negative - positive,
            "energy_l2": penalty,
        }
        if name == "beta" and len(names) > 1:
            weights = jax.nn.softmax(
                metrics["beta"] * given["output_scale"] * negatives.log_density
            )
            # ``run_chains`` returns equal parts, in the order of the names.
            shares = jnp.sum(weights.reshape(len(names), -1), axis=1)
            metrics |= {f"negative_weight_{n}": s for n, s in zip(names, shares, strict=True)}
        return value + penalty, metrics

    return loss, numbers


def chains_beta(numbers: Mapping[str, Any], total_steps: int) -> Any:
    """Returns the share of the density that chains lack at a step, or at the end of the run.

    It is 0 without the robust objective, whose fields are ``numbers`` then.
    """
    if "beta" not in numbers:
        return 0.0
    step = numbers.get("step", total_steps)
    return with_chains.scheduled_beta(numbers["beta"], numbers["beta_start"], step, total_steps)


def noise_levels(config: Config, train: data.ImageData) -> NoiseLevels | None:
    """Returns the levels of an objective whose model is of (x, noise); None of others.

    Raises:
      ConfigError: if they are out of order.
    """
    has_loss = config.loss.get("generative_weight", 1.0) > 0
    return _fit(config, train, 0) if has_loss and config.loss.name in LEVELS else None


def _fit(config: Config, train: data.ImageData, total_steps: int) -> Any:
    """Returns what the objective of ``config.loss`` fits to the training data."""
    fit: Any = getattr(find_objective(config.loss.name), "fit")  # noqa: B009
    section = config.loss[config.loss.name]
    return fit(train, total_steps, **{key: section[key] for key in read_fields(fit)})


def _users(config: Config) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns the user's ``(key, model, batch)``, or with ``negatives``, with its options.

    The function may return the loss alone, or ``(loss, metrics)``.

    Raises:
      ConfigError: for whatever the function does wrong, also when called.
    """
    name = config.loss.name
    part = find_part(config, "loss.name", name, ("key", "model", "batch"), ("negatives",))
    return lambda *given: _check_loss(part, part.call(*given, **part.options))


def _check_loss(part: UserPart, found: Any) -> tuple[jax.Array, Metrics]:
    """Returns what a user's loss has returned, as (loss, metrics)."""
    value: Any = found
    metrics: Any = {}
    if isinstance(found, tuple) and len(found) == 2:
        value, metrics = found
    is_scalar = hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)
    if not is_scalar or jnp.shape(value) != () or not isinstance(metrics, Mapping):
        got = f"shape {jnp.shape(value)}" if is_scalar else f"a {type(value).__name__}"
        raise ConfigError(
            f"config.loss.name={part.name!r} must return a loss, a floating-point scalar, or "
            f"(loss, metrics), a dict of scalars beside it; got {got}."
        )
    for name, number in metrics.items():
        if jnp.shape(number) != ():
            raise ConfigError(
                f"config.loss.name={part.name!r} must return metrics that are scalars, got "
                f"{name!r} of shape {jnp.shape(number)}: return its mean."
            )
    return value, dict(metrics)
