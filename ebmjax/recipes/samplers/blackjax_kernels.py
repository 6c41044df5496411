"""Kernels of BlackJAX that chains of a configuration can run by."""

import importlib.util
import inspect
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from ebmjax.densities import tempered
from ebmjax.recipes.core.fields import ConfigError

# Name to whether it asks for a mass matrix. All start from a log density and a position alone, and
# all accept or reject. Others take an estimator of the gradient (sgld, sghmc), a key to start with
# (ghmc, mclmc, dynamic_hmc) or a distribution besides the density (irmh, mgrad_gaussian).
KERNELS = {
    "adjusted_mclmc": False,
    "barker": False,
    "hmc": True,
    "mala": False,
    "multinomial_hmc": True,
    "normal_random_walk": False,
    "nuts": True,
}


def check_installed(asking: str, instead: str = "") -> None:
    """Raises ConfigError where BlackJAX is not installed.

    Args:
      asking: what needs it: a field of the configuration and its value.
      instead: what else one can do, in words that follow a comma.
    """
    if importlib.util.find_spec("blackjax") is None:
        raise ConfigError(
            f"{asking} needs BlackJAX, which is not installed: pip install blackjax"
            f"{', ' * bool(instead)}{instead}."
        )


def kernel(
    log_density_fn: Any, *, name: str, temperature: Any, num_pixels: int, options: Mapping[str, Any]
) -> Any:
    """The kernel ``name`` of ``KERNELS`` at ``temperature``, with a unit mass matrix.

    Args:
      log_density_fn: of one position, untempered.
      name: as BlackJAX calls it.
      temperature: T of the target ``log_density_fn / T``.
      num_pixels: of a position.
      options: by the names of BlackJAX's arguments; those that are None are left out.

    Raises:
      ConfigError: if an option is missing or is none of the kernel's.
    """
    import blackjax

    make = getattr(blackjax, name)
    given = {option: value for option, value in options.items() if value is not None}
    if KERNELS[name]:
        given["inverse_mass_matrix"] = jnp.ones(num_pixels)
    # BlackJAX wraps the function that names its arguments.
    signature = inspect.signature(getattr(make, "differentiable", make))
    try:
        signature.bind(log_density_fn, **given)
    except TypeError as error:
        taken = [p for p in list(signature.parameters)[1:] if p != "inverse_mass_matrix"]
        raise ConfigError(
            f"config.sampler.blackjax.{name}: {error}. BlackJAX's {name} takes {taken}; set what "
            f"it needs with --config.sampler.blackjax.{name}.OPTION=..."
        ) from error
    return make(tempered(log_density_fn, temperature), **given)


def hmc(
    log_density_fn: Any,
    *,
    step_size: Any,
    num_integration_steps: int,
    num_coordinates: int,
    temperature: Any = 1.0,
) -> Any:
    """Hamiltonian Monte Carlo whose first leapfrog step is the drift and noise of MALA's move.

    Leapfrog steps are sqrt(2 step_size temperature), on the density at that temperature.
    """
    import blackjax

    return blackjax.hmc(
        tempered(log_density_fn, temperature),
        (2.0 * step_size * temperature) ** 0.5,
        jnp.ones(num_coordinates),
        num_integration_steps=num_integration_steps,
    )
