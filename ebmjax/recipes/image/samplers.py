"""The samplers that an image energy's configuration can name, and the temperatures they imply."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import optax

from ebmjax import densities, samplers
from ebmjax.learning import ChainKind
from ebmjax.recipes.core.fields import Config, ConfigError, choose
from ebmjax.recipes.samplers import tempered_mala
from ebmjax.recipes.samplers.blackjax_kernels import hmc
from ebmjax.recipes.samplers.literal_mala import literal_mala

REJECTING = ("mala", "literal_mala", "tempered_mala", "hmc")
ADAPTABLE = ("mala", "hmc")
# "reject": by the samplers that reject; the others project.
BOXES = ("none", "project", "reflect", "reject")
# How far noise and temperature may be apart and still count as one chain's, relatively.
TOLERANCE = 0.01


def temperature(config: Config, name: str) -> float:
    """The temperature T that the chains of ``config.sampler.<name>`` aim at.

    ``temperature`` of the section where it is set, else the one that step and noise imply.
    """
    section = config.sampler[name]
    if section.temperature is not None:
        return section.temperature
    return implied_temperature(config, name)


def implied_temperature(config: Config, name: str) -> float:
    """``noise_scale^2 / (2 step_size)``, what the noise of the moves is exact for."""
    section = config.sampler[name]
    noise_scale = section.get("noise_scale")
    if noise_scale is None:
        return section.temperature
    return noise_scale**2 / (2.0 * section.step_size)


def kinds(config: Config, image_shape: tuple[int, ...]) -> dict[str, ChainKind]:
    """Name to kind of every sampler in ``config.sampler.names``."""
    section = config.sampler
    made = {}
    for name in section.names:
        check(config, name)
        adapts = section.target_acceptance is not None and name in ADAPTABLE
        made[name] = ChainKind(
            sampler=bound(config, name, image_shape),
            num_steps=section.num_steps,
            target_acceptance=section.target_acceptance if adapts else None,
            step_size=section[name].step_size,
            min_step_size=section.min_step_size,
        )
    return made


def with_larger_steps(config: Config, factor: float) -> Config:
    """``config`` with the steps of all its samplers times ``factor``, at the same temperatures."""
    config = config.copy_and_resolve_references()
    for name in config.sampler.names:
        section = config.sampler[name]
        section.step_size *= factor
        if section.get("noise_scale") is not None:
            section.noise_scale *= math.sqrt(factor)
    return config


def check(config: Config, name: str) -> None:
    """Refuses what cannot be a Langevin chain where the sampler needs one."""
    choose("sampler.names", name, SAMPLERS)
    section, where = config.sampler[name], f"config.sampler.{name}"
    noise_scale = section.get("noise_scale")
    if noise_scale is None and section.temperature is None:
        raise ConfigError(
            f"{where} needs a noise_scale (implying a temperature of noise_scale^2 / (2 "
            f"step_size)), or a temperature (implying the noise); set one of them."
        )
    if name not in REJECTING and noise_scale is not None and section.temperature is not None:
        raise ConfigError(
            f"{where} has both a noise_scale and a temperature, and {name} never rejects: its "
            f"noise sets its temperature. Set --{where}.temperature=None or "
            f"--{where}.noise_scale=None."
        )
    implied = implied_temperature(config, name)
    if name in REJECTING and implied == 0:
        raise ConfigError(
            f"{where}.noise_scale=0.0 implies the temperature 0: without noise no move can be "
            f"taken back and {name} would reject all of them. Set a noise_scale above 0, or take "
            "sgld, which never rejects."
        )
    is_decoupled = abs(implied - temperature(config, name)) > TOLERANCE * implied
    is_meant = name == "literal_mala" or config.sampler.allow_decoupled
    if name in REJECTING and is_decoupled and not is_meant:
        raise ConfigError(
            f"{where}.step_size={section.step_size:g} and noise_scale={noise_scale:g} imply the "
            f"temperature {implied:.3g}, not temperature={section.temperature:g}: that is no "
            f"Langevin chain, whose moves would hardly ever be accepted. Set --{where}"
            ".temperature=None or noise_scale=None, or try it with "
            "--config.sampler.allow_decoupled=True."
        )
    if config.sampler.target_acceptance is not None and name in ADAPTABLE and noise_scale:
        raise ConfigError(
            f"config.sampler.target_acceptance adapts the step of {name}, and the noise must "
            f"follow it: set --{where}.noise_scale=None and --{where}.temperature={implied:.3g}, "
            "what they imply now."
        )


def bound(config: Config, name: str, image_shape: tuple[int, ...]) -> Callable[..., Any]:
    """``log_density_fn -> Sampler`` of one sampler, in its box; ``step_size=`` may be given."""
    section = config.sampler[name]
    options = {k: v for k, v in section.to_dict().items() if k != "temperature"}
    if name in REJECTING or section.noise_scale is None:
        options["temperature"] = temperature(config, name)
    if name == "hmc":
        options["num_coordinates"] = math.prod(image_shape)
    make = partial(choose("sampler.names", name, SAMPLERS), **options)
    if config.sampler.final_step_fraction != 1.0:
        make = _annealed(make, section, config.sampler)
    low, high = config.sampler.low, config.sampler.high
    max_score = config.sampler.max_score
    box = choose("sampler.box", config.sampler.box, {box: box for box in BOXES})
    is_restricted = box == "reject" and name in REJECTING and options.get("rejects", True)
    if box == "reflect":
        make = samplers.reflect(make, low, high)
    elif box != "none" and not is_restricted:
        make = samplers.clamp(make, low, high)

    def make_in_box(density: Any, **step_size: Any) -> Any:
        if max_score is not None:
            density = samplers.clip_score(density, max_score)
        if is_restricted:
            density = densities.within_box(density, low, high)
        return make(density, **step_size)

    return make_in_box


def _annealed(make: Callable[..., Any], section: Config, sampler: Config) -> Callable[..., Any]:
    """Steps that fall evenly to ``final_step_fraction`` of the first, at the same temperature.

    From the length of a training chain on they stay there. A noise that is given falls with the
    root of the step.
    """
    fraction = optax.linear_schedule(
        1.0, sampler.final_step_fraction, max(sampler.num_steps - 1, 1)
    )
    noise_scale = section.get("noise_scale")

    def make_annealed(density: Any, step_size: Any = section.step_size) -> Any:
        falling = {"step_size": lambda step: step_size * fraction(step)}
        if noise_scale is not None:
            falling["noise_scale"] = lambda step: noise_scale * jnp.sqrt(fraction(step))
        return samplers.scheduled(make)(density, **falling)

    return make_annealed


SAMPLERS: dict[str, Callable[..., Any]] = {
    "sgld": samplers.sgld,
    "psgld": samplers.psgld,
    "mala": samplers.mala,
    "literal_mala": literal_mala,
    "tempered_mala": tempered_mala,
    "hmc": hmc,
}
