"""The samplers that a joint energy model's configuration can name, and the box they live in."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ebmjax import densities, learning, samplers
from ebmjax.recipes.core.fields import Config, ConfigError, choose
from ebmjax.recipes.samplers import tempered_mala
from ebmjax.recipes.samplers.blackjax_kernels import KERNELS, check_installed, kernel
from ebmjax.recipes.samplers.literal_mala import literal_mala

PARTICLE_SAMPLERS = ("svgd", "adaptive_svgd", "stochastic_svgd")
REJECTING = ("mala", "literal_mala", "tempered_mala", "blackjax")
# Their noise is apart from their step, and both imply a temperature.
UNADJUSTED = ("sgld", "proximal_sgld", "psgld")


def sampler(config: Config, image_shape: tuple[int, ...]) -> Callable[..., Any]:
    """``log_density_fn -> Sampler`` from ``config.sampler``, with the box it lives in."""
    section = config.sampler
    make = choose("sampler.name", section.name, SAMPLERS)
    if section.name == "blackjax":
        options = _blackjax(section.blackjax, image_shape)
    else:
        options = section[section.name].to_dict()
    box = choose("sampler.box", section.box, BOXES)
    if section.name == "pyld":
        return partial(_pyld, section, options)

    if section.box == "reject" and not (section.name in REJECTING and options.get("rejects", True)):
        raise ConfigError(
            f"config.sampler.box='reject' takes back moves over the ends, and config.sampler.name="
            f"{section.name!r} never takes one back: its chains would walk out and stay. Take "
            f"'clamp' or 'reflect', or a sampler that rejects, one of {sorted(REJECTING)}."
        )

    def bound(density: Any, **spread: Any) -> Any:
        if section.max_score is not None:
            density = samplers.clip_score(density, section.max_score)
        return box(make, section.low, section.high)(density, **options, **spread)

    return bound


def implied_temperature(section: Config) -> float | None:
    """For which the moves of ``config.sampler`` are Langevin's; None for others (SVGD, PYLD).

    What step and noise imply where both are given, else the temperature that makes the noise.
    """
    options = section[section.name]
    if section.name in (*UNADJUSTED, "literal_mala"):
        return float(samplers.implied_temperature(options.step_size, options.noise_scale))
    return options.get("temperature")


def _proximal_sgld(log_density_fn: Any, *, max_drift: float, **options: Any) -> Any:
    return samplers.clip_drift(samplers.sgld, max_drift)(log_density_fn, **options)


def _pyld(section: Config, options: dict[str, Any], density: learning.ChainDensity) -> Any:
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


def _blackjax(section: Config, image_shape: tuple[int, ...]) -> dict[str, Any]:
    """The options of ``kernel`` from ``config.sampler.blackjax``."""
    name = section.kernel
    choose("sampler.blackjax.kernel", name, KERNELS)
    check_installed("config.sampler.name='blackjax'")
    options = {
        "name": name,
        "temperature": section.temperature,
        "num_pixels": math.prod(image_shape),
        "options": section[name].to_dict(),
    }
    kernel(lambda position: 0.0, **options)  # told before anything is written
    return options


SAMPLERS = {
    "sgld": samplers.sgld,
    "proximal_sgld": _proximal_sgld,
    "psgld": samplers.psgld,
    "mala": samplers.mala,
    "literal_mala": literal_mala,
    "tempered_mala": tempered_mala,
    "svgd": samplers.svgd,
    "adaptive_svgd": samplers.adaptive_svgd,
    "stochastic_svgd": samplers.stochastic_svgd,
    "pyld": samplers.pyld,
    "blackjax": kernel,
}


def _reject_outside(make: Callable[..., Any], low: float, high: float) -> Callable[..., Any]:
    return lambda density, **options: make(densities.within_box(density, low, high), **options)


BOXES = {
    "none": lambda make, low, high: make,
    "clamp": samplers.clamp,
    "reflect": samplers.reflect,
    "reject": _reject_outside,
}
