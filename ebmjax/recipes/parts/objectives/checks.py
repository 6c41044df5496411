"""Refuses fields of an objective that do not go together, or warns of them. Needs no JAX."""

from ebmjax.recipes.config import checks
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.parts.objectives.table import draws

OF_SCORES = ("denoising", "denoising_levels", "score_matching", "energy_matching")
"""Objectives whose losses hold gradients of the energy, which training differentiates again."""


def warn_of_objective(config: Config) -> tuple[str, ...]:
    """Returns a line where the objective of ``config.loss`` wants a smooth activation."""
    name, activation = config.loss.name, config.model.get("activation", "")
    if name not in OF_SCORES or "relu" not in activation or config.model.get("factory"):
        return ()
    return (
        f"warning: config.loss.name={name} needs second derivatives, of which "
        f"config.model.activation={activation} has none: set --config.model.activation=swish",
    )


def _check_tilted(config: Config) -> None:
    """Refuses chains of q exp(f / T) for an objective without chains, which trains exp(f)."""
    name, section = config.loss.name, config.sampler
    if checks.TILTED not in (section.get("name"), *section.get("names", ())):
        return
    if not draws(config):
        field, value = ("name", "mala") if "name" in section else ("names", "'(\"mala\",)'")
        raise ConfigError(
            f"config.loss.name={name} trains the density exp(f) without chains, and "
            f"{checks.TILTED} samples q exp(f / T), q a Gaussian of the images: set "
            f"--config.sampler.{field}={value} --config.sampler.mala.noise_scale=None "
            "--config.sampler.mala.temperature=1 --config.sampler.mala.step_size=1e-4."
        )


def check_objective(config: Config) -> None:
    """Raises ConfigError if the section of ``config.loss.name`` does not go with other fields."""
    _check_tilted(config)
    if config.loss.name == "energy_matching":
        section = config.loss.energy_matching
        reached = section.num_steps * section.step_size
        if reached < 1:
            raise ConfigError(
                "config.loss.energy_matching.num_steps times step_size must be at least 1, when "
                f"noise reaches the data; got {section.num_steps} * {section.step_size:g} = "
                f"{reached:.2g}: take longer chains."
            )
