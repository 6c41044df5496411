"""Refuses fields of an objective that do not go together. Needs no JAX."""

from ebmjax.recipes.config import checks
from ebmjax.recipes.config.errors import Config, ConfigError


def check_objective(config: Config) -> None:
    """Raises ConfigError if the section of ``config.loss.name`` does not go with other fields."""
    if config.loss.name == "jarzynski":
        checks.check_shards(config, "loss.jarzynski.num_walkers")
        num_walkers, num_shards = config.loss.jarzynski.num_walkers, config.mesh.num_shards
        if num_walkers < 2 * num_shards:
            raise ConfigError(
                "config.loss.jarzynski.num_walkers must be at least 2 for each of "
                f"config.mesh.num_shards={num_shards} shards, or weights say nothing; got "
                f"{num_walkers}. Some hundred are usual."
            )
    if config.loss.name == "energy_matching":
        section = config.loss.energy_matching
        reached = section.num_steps * section.step_size
        if reached < 1:
            raise ConfigError(
                "config.loss.energy_matching.num_steps times step_size must be at least 1, when "
                f"noise reaches the data; got {section.num_steps} * {section.step_size:g} = "
                f"{reached:.2g}: take longer chains."
            )
