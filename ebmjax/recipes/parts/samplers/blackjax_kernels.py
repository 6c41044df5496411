"""Kernels of BlackJAX that chains of a configuration can run by; loads nothing until then."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ebmjax._ranges import COUNT, FINITE, POSITIVE
from ebmjax.recipes.config.checks import check_installed as check_installed
from ebmjax.recipes.config.checks import options_of
from ebmjax.recipes.config.declare import Field, field, refusal_of
from ebmjax.recipes.config.errors import Config, ConfigError, pick

SECTION = "sampler.blackjax"
STEP = field(0.01, POSITIVE, "step, in BlackJAX's own units")
LEAPFROGS = field(5, COUNT, "leapfrog steps of a move")
KERNELS: dict[str, dict[str, Field]] = {
    "adjusted_mclmc": {
        "step_size": replace(STEP, default=0.08),
        "num_integration_steps": LEAPFROGS,
    },
    "barker": {"step_size": STEP},
    "mala": {"step_size": replace(STEP, default=5e-5)},
    "multinomial_hmc": {"step_size": STEP, "num_integration_steps": LEAPFROGS},
    "normal_random_walk": {"sigma": field(0.01, POSITIVE, "standard deviation of a move")},
    "nuts": {
        "step_size": STEP,
        "max_num_doublings": field(4, COUNT, "doublings of a trajectory, at most"),
    },
}
"""Kernels and their options. All start from a log density and a position alone, and all accept or
reject. Others take an estimator of the gradient (sgld, sghmc), a key to start with (ghmc, mclmc,
dynamic_hmc) or a distribution besides the density (irmh, mgrad_gaussian). "hmc" is
ours, with a step as Langevin samplers have it."""
WITH_MASS = ("multinomial_hmc", "nuts")
"""Kernels that ask for a mass matrix."""


def read_options(config: Config) -> dict[str, Any]:
    """Returns the section of BlackJAX's kernels, with all options of the kernel that it names.

    Raises:
      ConfigError: if the kernel is unknown, or an option is no finite number or out of range.
    """
    section = config[SECTION]
    fields = pick(f"{SECTION}.kernel", section.kernel, KERNELS)
    options = {name: one.default for name, one in fields.items()} | options_of(config, SECTION)
    for name, value in options.items():
        one = fields.get(name, field(0.0, FINITE, ""))
        is_flag = isinstance(value, bool) and name not in fields
        if not is_flag and one.values.refusal(value) is not None:
            raise ConfigError(refusal_of(one, f"{SECTION}.options {name!r}", value))
    return section.to_dict() | {"options": options}


def blackjax_kernel(
    log_density_fn: Any,
    *,
    kernel: str,
    temperature: Any,
    options: Mapping[str, Any],
    num_coordinates: int,
) -> Any:
    """Returns one of ``KERNELS`` at ``temperature``, with a unit mass matrix.

    Args:
      log_density_fn: of one position, untempered.
      kernel: name that BlackJAX gives it.
      temperature: T of the target ``log_density_fn / T``.
      options: of the kernel, by the names of BlackJAX's arguments.
      num_coordinates: of a position.
    """
    import blackjax
    import jax.numpy as jnp

    from ebmjax.densities import tempered

    mass = {"inverse_mass_matrix": jnp.ones(num_coordinates)} if kernel in WITH_MASS else {}
    return getattr(blackjax, kernel)(tempered(log_density_fn, temperature), **options, **mass)


def check_options(kernel: str, options: Mapping[str, Any]) -> None:
    """Raises ConfigError for options that BlackJAX's kernel does not take."""
    import blackjax

    make = getattr(blackjax, kernel)  # BlackJAX wraps the function that names its arguments
    parameters = inspect.signature(getattr(make, "differentiable", make)).parameters
    taken = [name for name in list(parameters)[1:] if name != "inverse_mass_matrix"]
    unknown = [name for name in options if name not in taken]
    if unknown:
        raise ConfigError(
            f"config.{SECTION}.options has {unknown}; BlackJAX's {kernel} takes {taken}."
        )
