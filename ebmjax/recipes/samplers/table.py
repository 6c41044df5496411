"""Samplers by name, for the families that share a table: latent EBMs and the plane."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ebmjax import samplers
from ebmjax.recipes.core.fields import Config, choose
from ebmjax.types import Sampler


def tempered_mala(
    log_density_fn: Any, *, step_size: Any, temperature: Any = 1.0, **options: Any
) -> Sampler:
    """Its first moves are MALA's of the same step: the library divides the step by T."""
    return samplers.tempered_mala(
        log_density_fn, step_size=step_size * temperature, temperature=temperature, **options
    )


SAMPLERS = {
    "gradient_descent": samplers.gradient_descent,
    "sgld": samplers.sgld,
    "psgld": samplers.psgld,
    "mala": samplers.mala,
    "tempered_mala": tempered_mala,
}


def sampler(config: Config, name: str) -> Callable[..., Any]:
    """``log_density_fn -> Sampler`` from the section ``config.<name>`` of a sampler."""
    section = config.to_dict()
    for part in name.split("."):
        section = section[part]
    hyperparameters = {k: v for k, v in section.items() if k not in ("name", "num_steps")}
    return partial(choose(f"{name}.name", section["name"], SAMPLERS), **hyperparameters)
