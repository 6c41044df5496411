"""Objectives that configurations name: their signatures are their fields."""

import inspect
from collections.abc import Callable
from typing import Any

from ebmjax._ranges import one_of_or_function
from ebmjax.recipes.config import checks
from ebmjax.recipes.config.declare import Field, field, read_fields, under, when_is
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import find_function, is_users
from ebmjax.recipes.parts.objectives import chainless, denoising, with_chains

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


def draws(config: Config) -> bool:
    """Returns whether the objective of ``config.loss`` compares the data with samples of chains."""
    return "negatives" in inspect.signature(find_objective(config.loss.name)).parameters


def fields(model: str, text: str = "objective") -> dict[str, Field]:
    """Returns ``loss.name`` and the fields of objectives of a model, "energy" or "joint"."""
    names = [name for name in OBJECTIVES if MODELS.get(name, model) == model]
    made = {"loss.name": field(names[0], one_of_or_function(*names), text)}
    for name in names:
        function = OBJECTIVES[name]
        own = read_fields(function) | read_fields(getattr(function, "fit", function))
        has_chains = "negatives" in inspect.signature(function).parameters
        section = "loss" if has_chains else f"loss.{name}"
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
    if not draws(config):
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
    if checks.TILTED in (config.sampler.get("name"), *config.sampler.get("names", ())):
        field, value = ("name", "mala") if "name" in config.sampler else ("names", "'(\"mala\",)'")
        raise ConfigError(
            f"config.loss.name={config.loss.name} trains the density exp(f) without chains, and "
            f"{checks.TILTED} samples q exp(f / T), q a Gaussian of the images: set "
            f"--config.sampler.{field}={value} --config.sampler.mala.noise_scale=None "
            "--config.sampler.mala.temperature=1 --config.sampler.mala.step_size=1e-4."
        )
