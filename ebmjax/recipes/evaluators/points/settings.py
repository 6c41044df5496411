"""Settings in which samplers are compared on points, and their check. Nothing here imports JAX."""

import inspect
from typing import Any

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, default_options, find_function, is_users
from ebmjax.recipes.evaluators.table import COMPARED_SAMPLERS, NEVER
from ebmjax.recipes.parts.samplers import Chosen, defaults
from ebmjax.recipes.parts.samplers import check as check_samplers

MIN_DRAWS = 4
"""Fewest draws that chains are judged by."""
FIELD = "eval.comparison.samplers"


def _setting(leapfrogs: int, **step_sizes: float) -> dict[str, dict[str, Any]]:
    """Returns the options of samplers by name; the others are the table's, at temperature 1."""
    options: dict[str, dict[str, Any]] = {k: {"step_size": v} for k, v in step_sizes.items()}
    options["hmc"]["num_integration_steps"] = leapfrogs
    return options


SETTINGS = {
    "thesis": _setting(10, **dict.fromkeys(COMPARED_SAMPLERS, 0.01)),
    "tuned": _setting(
        3,
        gradient_descent=0.5,
        sgld=0.1,
        psgld=0.1,
        mala=1.0,
        tempered_mala=2.0,
        svgd=3.0,
        stochastic_svgd=2.0,
        hmc=0.2,
    ),
}
"""Settings in which every sampler runs: the thesis's steps, and ones to use."""


def sampler_in(setting: str, name: str) -> Chosen:
    """Returns a sampler of ``eval.comparison.samplers`` as a setting has it.

    A function of the user aims at temperature 1, too. It has the thesis's step, or its own default.

    Raises:
      ConfigError: if there is no such function, or it has an argument without a default.
    """
    where = f"config.{FIELD}"
    if not is_users(name):
        return Chosen(name, where, defaults(name) | SETTINGS[setting].get(name, {}))
    function = find_function(FIELD, name)
    density, *others = inspect.signature(function).parameters
    usual = {"noise_scale": None, "temperature": 1.0}
    if setting == "thesis":
        usual["step_size"] = 0.01
    options = default_options(function, (density, "axis_name"))
    options |= {key: value for key, value in usual.items() if key in others}
    bare = [one for one in others if one not in (*options, "axis_name")]
    if bare:
        raise ConfigError(
            f"{where}={name!r} has arguments {bare} without a value. Give them defaults, in the "
            "function's signature or in FIELDS of its file."
        )
    return Chosen(name, where, options, UserPart(FIELD, name, function, {}))


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields of density and comparison that is wrong."""
    density, section = config.eval.density, config.eval.comparison
    width = 2 * density.half_width / density.grid_points
    if density.every != NEVER and density.bandwidth < width:
        raise ConfigError(
            f"config.eval.density.bandwidth={density.bandwidth} must be at least the width of a "
            f"cell, {width:.3g}. Take more config.eval.density.grid_points."
        )
    if section.every == NEVER:
        return
    if density.every == NEVER:
        raise ConfigError(
            "config.eval.comparison compares samplers on the grid of the density, and "
            "config.eval.density.every='never': set --config.eval.density.every=end."
        )
    if not section.samplers:
        raise ConfigError(f"config.{FIELD} must name at least one sampler, got none.")
    chosen = [sampler_in("tuned", name) for name in section.samplers]
    if len({one.label for one in chosen}) < len(chosen):
        raise ConfigError(
            f"config.{FIELD} must name each function once, whatever its file, because the report "
            f"has the names; got {section.samplers}."
        )
    check_samplers({}, chosen)
    if section.burn_in > section.num_steps - MIN_DRAWS:
        raise ConfigError(
            f"config.eval.comparison.burn_in must leave at least {MIN_DRAWS} of "
            f"config.eval.comparison.num_steps={section.num_steps} to judge the chains by, got "
            f"{section.burn_in}."
        )
