"""Samplers of the library, with the arguments that the table gives them."""

from typing import Any

import jax.numpy as jnp

from ebmjax import densities, samplers
from ebmjax.types import Sampler


def proximal_sgld(log_density_fn: Any, *, max_drift: Any, **options: Any) -> Sampler:
    """Returns SGLD whose drift is clipped, as in JEM++ and SADA-JEM."""
    return samplers.clip_drift(samplers.sgld, max_drift)(log_density_fn, **options)


def tempered_mala(
    log_density_fn: Any, *, step_size: Any, temperature: Any = 1.0, **options: Any
) -> Sampler:
    """Returns tempered MALA whose first moves are MALA's of the same step.

    The library divides the step by the temperature; here it is multiplied by it first.
    """
    return samplers.tempered_mala(
        log_density_fn, step_size=step_size * temperature, temperature=temperature, **options
    )


def parallel_tempering(
    log_density_fn: Any,
    *,
    step_size: Any,
    temperature: Any = 1.0,
    num_powers: int,
    lowest_power: Any,
    num_inner: int,
) -> Sampler:
    """Returns tempering of MALA on powers that fall by one factor from 1 to the lowest.

    The replica at power t makes MALA's moves of the same step at the temperature T / t.
    """
    powers = lowest_power ** jnp.linspace(1.0, 0.0, num_powers)
    return samplers.parallel_tempering(
        densities.tempered(log_density_fn, temperature),
        powers=powers,
        step_size=step_size * temperature / powers,
        num_steps=num_inner,
    )


def pyld(density: Any, **options: Any) -> Sampler:
    """Returns PYLD on a density with the attributes ``first_layer`` and ``head``."""
    return samplers.pyld(density.first_layer, density.head, **options)
