"""Kernels of BlackJAX that chains of a configuration can run by; loads nothing until then."""

import inspect
from collections.abc import Mapping
from typing import Any

from ebmjax.recipes.config.checks import check_installed as check_installed
from ebmjax.recipes.config.errors import ConfigError, pick

# Name to whether it asks for a mass matrix. All start from a log density and a position alone, and
# all accept or reject. Others take an estimator of the gradient (sgld, sghmc), a key to start with
# (ghmc, mclmc, dynamic_hmc) or a distribution besides the density (irmh, mgrad_gaussian). "hmc" is
# a sampler of the table itself, with a step as Langevin samplers have it.
KERNELS = {
    "adjusted_mclmc": False,
    "barker": False,
    "mala": False,
    "multinomial_hmc": True,
    "normal_random_walk": False,
    "nuts": True,
}


def blackjax_kernel(
    log_density_fn: Any,
    *,
    kernel: str,
    temperature: Any,
    num_coordinates: int,
    **sections: Mapping[str, Any],
) -> Any:
    """Returns one of ``KERNELS`` at ``temperature``, with a unit mass matrix.

    Args:
      log_density_fn: of one position, untempered.
      kernel: name that BlackJAX gives it.
      temperature: T of the target ``log_density_fn / T``.
      num_coordinates: of a position.
      sections: options of each kernel, by the names of BlackJAX's arguments; those that are None
        are left out.

    Raises:
      ConfigError: if the kernel is unknown, or an option is missing or is none of the kernel's.
    """
    import blackjax
    import jax.numpy as jnp

    from ebmjax.densities import tempered

    options = check_options(kernel=kernel, temperature=temperature, **sections)
    if KERNELS[kernel]:
        options["inverse_mass_matrix"] = jnp.ones(num_coordinates)
    return getattr(blackjax, kernel)(tempered(log_density_fn, temperature), **options)


def check_options(*, kernel: str, temperature: Any, **sections: Mapping[str, Any]) -> Any:
    """Returns the options of ``kernel`` that are set.

    Raises:
      ConfigError: if the kernel is unknown, or an option is missing or is none of the kernel's.
    """
    import blackjax

    del temperature
    where = "sampler.blackjax"
    pick(f"{where}.kernel", kernel, KERNELS)
    given = {option: value for option, value in sections[kernel].items() if value is not None}
    mass = {"inverse_mass_matrix": None} if KERNELS[kernel] else {}
    # BlackJAX wraps the function that names its arguments.
    make = getattr(blackjax, kernel)
    signature = inspect.signature(getattr(make, "differentiable", make))
    try:
        signature.bind(None, **given, **mass)
    except TypeError as error:
        taken = [p for p in list(signature.parameters)[1:] if p != "inverse_mass_matrix"]
        raise ConfigError(
            f"config.{where}.{kernel}: {error}. BlackJAX's {kernel} takes {taken}; set what it "
            f"needs with --config.{where}.{kernel}.OPTION=..."
        ) from error
    return given


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
    import jax.numpy as jnp

    from ebmjax.densities import tempered

    return blackjax.hmc(
        tempered(log_density_fn, temperature),
        (2.0 * step_size * temperature) ** 0.5,
        jnp.ones(num_coordinates),
        num_integration_steps=num_integration_steps,
    )
