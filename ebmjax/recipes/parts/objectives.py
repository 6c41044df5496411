"""Objectives that configurations name: their signatures are their fields."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax

from ebmjax import data, losses
from ebmjax._ranges import (
    BELOW_ONE,
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.learning import Density, Samples
from ebmjax.recipes.config.declare import Field, field, read_fields, under, when_is
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import find_function, find_part, is_users
from ebmjax.recipes.parts import chainless
from ebmjax.types import Key, Metrics

TILTED = "tilted_langevin"


def contrastive_divergence(
    key: Key, model: Density, batch: Samples, negatives: Samples
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.contrastive_divergence_loss``: the data's log density up, samples' down."""
    return losses.contrastive_divergence_loss(-batch.log_density, -negatives.log_density)


def improved(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    kl_weight: Annotated[Any, NOT_NEGATIVE] = 1.0,
    entropy_weight: Annotated[Any, NOT_NEGATIVE] = 0.3 / 64,
    live_steps: Annotated[int, COUNT] = 1,
    num_references: Annotated[int, COUNT] = 100,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.improved_contrastive_divergence_loss``, for negatives of live chains.

    Args:
      kl_weight: weight of the KL term
      entropy_weight: weight of the entropy of the negatives
      live_steps: last steps that are differentiated
      num_references: buffered images among which neighbours are sought
    """
    return losses.improved_contrastive_divergence_loss(
        -batch.log_density,
        -negatives.log_density,
        -negatives.live,
        negatives.entropy,
        kl_weight=kl_weight,
        entropy_weight=entropy_weight,
    )


def beta(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    step: Any = 0,
    total_steps: int = 0,
    beta: Annotated[Any, BELOW_ONE] = 0.0,
    beta_start: Annotated[Any, optional(BELOW_ONE)] = None,
    beta_variant: Annotated[
        str, one_of("default", "no_positive", "batch_corrected", "true_objective")
    ] = "default",
    output_scale: Annotated[Any, POSITIVE] = 1.0,
    max_positive_weight: Annotated[Any, optional(PROBABILITY)] = None,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.beta_objective_loss``: samples count by their density to the power of beta.

    Args:
      beta: exponent of the robust objective, at the end of the run
      beta_start: beta at the start, linear to loss.beta; None: constant
      beta_variant: form of the robust objective
      output_scale: factor on the log density inside the robust objective
      max_positive_weight: updates whose data have a larger mean weight are skipped; None: none are
    """
    exponent = chains_beta({"beta": beta, "beta_start": beta_start, "step": step}, total_steps)
    value, metrics = losses.beta_objective_loss(
        batch.log_density,
        negatives.log_density,
        beta=exponent,
        variant=beta_variant,
        output_scale=output_scale,
        allow_negative=True,
    )
    return value, {**metrics, "beta": jnp.float32(exponent)}


def chains_beta(fields: Mapping[str, Any], total_steps: int) -> Any:
    """Returns the share of the density that chains lack at a step, or at the end of the run.

    ``fields`` are those of an objective and "step"; it is 0 unless they have a beta.
    """
    if fields.get("beta_start") is None:
        return fields.get("beta", 0.0)
    step = fields.get("step", total_steps)
    return optax.linear_schedule(fields["beta_start"], fields["beta"], total_steps)(step)


def svgd(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    smoothing: Any,
    svgd_variant: Annotated[str, one_of("corrected", "literal")] = "corrected",
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.svgd_generative_loss``, of SVGD-in-JEM.

    Args:
      svgd_variant: form of the loss of SVGD
    """
    return losses.svgd_generative_loss(
        batch.f, negatives.f, smoothing=smoothing, variant=svgd_variant
    )


OBJECTIVES: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        contrastive_divergence,
        improved,
        beta,
        svgd,
        chainless.denoising,
        chainless.denoising_levels,
        chainless.diffusion_recovery,
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
        section = "loss" if draws(name) else f"loss.{name}"
        own = {f"{section}.{key}": one for key, one in read_fields(OBJECTIVES[name]).items()}
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
    if not draws(name) and TILTED in (config.sampler.get("name"), *config.sampler.get("names", ())):
        other = "name=mala" if "name" in config.sampler else "names='(\"mala\",)'"
        raise ConfigError(
            f"config.loss.name={name} trains the density exp(f) without chains, and {TILTED} "
            f"samples q exp(f / T), q a Gaussian of the images: set --config.sampler.{other} "
            "--config.sampler.mala.temperature=1 "
            "--config.sampler.mala.step_size=1e-4."
        )
    size = "positive_batch_size" if "positive_batch_size" in config.train else "batch_size"
    if section.get("beta_variant") == "true_objective" and config.train[size] % 2:
        raise ConfigError(
            f"config.train.{size} must be even for config.loss.beta_variant=true_objective, which "
            f"halves it, got {config.train[size]}."
        )


def make_loss(
    config: Config, train: data.ImageData, total_steps: int = 0
) -> tuple[Callable[..., tuple[jax.Array, Metrics]], dict[str, Any]]:
    """Returns the loss of ``config.loss``, and its numbers, see ``learning.Objective``.

    An objective of ours is given its fields, and those of "smoothing", "step", "total_steps" and
    "fitted", the result of ``chainless.fit``, that it takes.

    With chains it has the penalty on the network's squared log densities, whatever the smoothing:
    where that adapts, the weight of the penalty stays.
    """
    name, fields = config.loss.name, dict(config.loss)
    objective = _users(config) if is_users(name) else find_objective(name)
    if not draws(name):
        fields |= fields.get(name, {})
    taken = () if is_users(name) else inspect.signature(objective).parameters
    numbers = {key: fields[key] for key in (*taken, "energy_l2", "max_gap") if key in fields}
    if "fitted" in taken:
        numbers["fitted"] = chainless.fit(config, train)

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
        return value + penalty, {
            **metrics,
            "positive_energy": positive,
            "negative_energy": negative,
            "energy_gap": negative - positive,
            "energy_l2": penalty,
        }

    return loss, numbers


def _users(config: Config) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns the user's ``(key, model, batch)``, or with ``negatives``, with its options.

    The function may return the loss alone, or ``(loss, metrics)``.
    """
    name = config.loss.name
    part = find_part(config, "loss.name", name, ("key", "model", "batch"), ("negatives",))

    def loss(*given: Any) -> tuple[jax.Array, Metrics]:
        found: Any = part.call(*given, **part.options)
        value: Any
        value, metrics = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        if not hasattr(value, "dtype") or not jnp.issubdtype(value.dtype, jnp.floating):
            wrong = f"a {type(value).__name__}"
        elif jnp.shape(value) or not isinstance(metrics, Mapping):
            wrong = f"shape {jnp.shape(value)} and a {type(metrics).__name__}"
        else:
            shapes = {key: jnp.shape(one) for key, one in metrics.items()}
            wrong = ", ".join(f"{key!r} of shape {shape}" for key, shape in shapes.items() if shape)
        if wrong:
            raise ConfigError(
                f"config.loss.name={name!r} must return a loss, a floating-point scalar, or (loss, "
                f"metrics), a dict of scalars beside it; got {wrong}."
            )
        return value, dict(metrics)

    return loss
