"""The samplers that a joint energy model's configuration can name, and the box they live in."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from ebmjax import densities, samplers, training
from experiments.build import tempered_mala
from experiments.config import Config
from experiments.errors import ConfigError
from experiments.validate import choose

PARTICLE_SAMPLERS = ("svgd", "stochastic_svgd")


def sampler(config: Config, image_shape: tuple[int, ...]) -> Callable[..., Any]:
    """``log_density_fn -> Sampler`` from ``config.sampler``, with the box it lives in."""
    section = config.sampler
    make = choose("sampler.name", section.name, SAMPLERS)
    options = section[section.name].to_dict()
    if section.name == "blackjax":
        options["num_pixels"] = image_shape[0] * image_shape[1] * image_shape[2]
    box = choose("sampler.box", section.box, BOXES)
    if section.name == "pyld":
        return partial(_pyld, section, options)

    def bound(density: Any) -> Any:
        if section.max_score is not None:
            density = samplers.clip_score(density, section.max_score)
        return box(make, section.low, section.high)(density, **options)

    return bound


def _proximal_sgld(log_density_fn: Any, *, max_drift: float, **options: Any) -> Any:
    return samplers.clip_drift(samplers.sgld, max_drift)(log_density_fn, **options)


def _pyld(section: Config, options: dict[str, Any], density: training.ChainDensity) -> Any:
    """Steps through the first layer; the box and the clipping are those of its inner moves."""
    if density.first_layer is None or density.head is None:
        raise ConfigError("config.sampler.name='pyld' needs a network split after its first layer.")
    if section.box == "clamp":
        options = options | {"low": section.low, "high": section.high}
    elif section.box != "none":
        raise ConfigError(
            f"config.sampler.box={section.box!r} is none that config.sampler.name='pyld' knows, "
            "whose box is in every inner move: take 'clamp' or 'none'."
        )
    return samplers.pyld(density.first_layer, density.head, max_score=section.max_score, **options)


def _blackjax(
    log_density_fn: Any,
    *,
    kernel: str,
    step_size: float,
    num_integration_steps: int,
    num_pixels: int,
) -> Any:
    """A kernel of BlackJAX with a unit mass matrix, given what its signature asks for."""
    import blackjax

    make = getattr(blackjax, kernel, None)
    if make is None:
        raise ConfigError(f"config.sampler.blackjax.kernel={kernel!r} is no kernel of BlackJAX.")
    offered = {
        "step_size": step_size,
        "num_integration_steps": num_integration_steps,
        "inverse_mass_matrix": jnp.ones(num_pixels),
    }
    # BlackJAX wraps the function that names its arguments.
    asked = inspect.signature(getattr(make, "differentiable", make)).parameters
    return make(log_density_fn, **{k: v for k, v in offered.items() if k in asked})


SAMPLERS = {
    "sgld": samplers.sgld,
    "proximal_sgld": _proximal_sgld,
    "psgld": samplers.psgld,
    "mala": samplers.mala,
    "tempered_mala": tempered_mala,
    "svgd": samplers.svgd,
    "stochastic_svgd": samplers.stochastic_svgd,
    "pyld": samplers.pyld,
    "blackjax": _blackjax,
}


def _reject_outside(make: Callable[..., Any], low: float, high: float) -> Callable[..., Any]:
    return lambda density, **options: make(densities.within_box(density, low, high), **options)


BOXES = {
    "none": lambda make, low, high: make,
    "clamp": samplers.clamp,
    "reflect": samplers.reflect,
    "reject": _reject_outside,
}
