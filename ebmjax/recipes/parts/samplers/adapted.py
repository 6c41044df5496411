"""Samplers of the library, with the arguments that configurations give them."""

from collections.abc import Callable
from typing import Annotated, Any

import jax.numpy as jnp

from ebmjax import densities, samplers
from ebmjax._ranges import (
    COUNT,
    INSIDE_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    TWO_OR_MORE,
    optional,
)
from ebmjax.types import Sampler

FACTS = ("rejects", "adapts", "interacts", "memory")


def _like(sampler: Any) -> Callable[[Any], Any]:
    """Returns a decorator that gives a function the facts of a sampler of the library."""

    def mark(function: Any) -> Any:
        for fact in FACTS:
            setattr(function, fact, getattr(sampler, fact))
        return function

    return mark


@_like(samplers.sgld)
def proximal_sgld(
    log_density_fn: Any,
    *,
    step_size: Annotated[Any, POSITIVE],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    temperature: Annotated[Any, optional(POSITIVE)] = None,
    max_drift: Annotated[Any, POSITIVE] = 1.0,
) -> Sampler:
    """Returns SGLD whose drift is clipped, as in JEM++ and SADA-JEM.

    Args:
      log_density_fn: of one position.
      step_size: the score is multiplied by it.
      noise_scale: standard deviation of a step's noise; None: sqrt(2 step_size temperature).
      temperature: T of the target.
      max_drift: largest drift of a coordinate at a step.
    """
    make = samplers.clip_drift(samplers.sgld, max_drift)
    return make(
        log_density_fn, step_size=step_size, noise_scale=noise_scale, temperature=temperature
    )


@_like(samplers.tempered_mala)
def tempered_mala(
    log_density_fn: Any,
    *,
    step_size: Annotated[Any, POSITIVE],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    temperature: Annotated[Any, POSITIVE] = 1.0,
    acceptance_threshold: Annotated[Any, PROBABILITY] = 0.5,
    temperature_growth: Annotated[Any, POSITIVE] = 10.0,
    acceptance_decay: Annotated[Any, PROBABILITY] = 0.9,
) -> Sampler:
    """Returns tempered MALA whose first moves are MALA's of the same step.

    The library divides the step by the temperature; here it is multiplied by it first.

    Args:
      log_density_fn: of one position.
      step_size: the score is multiplied by it.
      noise_scale: standard deviation of a step's noise; None: sqrt(2 step_size temperature).
      temperature: T at the start.
      acceptance_threshold: T rises while the acceptance is below this.
      temperature_growth: factor of a rise of T.
      acceptance_decay: share of the running acceptance that is kept; 0 judges each move alone.
    """
    return samplers.tempered_mala(
        log_density_fn,
        step_size=step_size * temperature,
        noise_scale=noise_scale,
        temperature=temperature,
        acceptance_threshold=acceptance_threshold,
        temperature_growth=temperature_growth,
        acceptance_decay=acceptance_decay,
    )


@_like(samplers.parallel_tempering)
def parallel_tempering(
    log_density_fn: Any,
    *,
    step_size: Annotated[Any, POSITIVE],
    temperature: Annotated[Any, POSITIVE] = 1.0,
    num_powers: Annotated[int, TWO_OR_MORE] = 4,
    lowest_power: Annotated[Any, INSIDE_ONE] = 0.1,
    num_inner: Annotated[int, COUNT] = 1,
) -> Sampler:
    """Returns tempering of MALA on powers that fall by one factor from 1 to the lowest.

    The replica at power t makes MALA's moves of the same step at the temperature T / t.

    Args:
      log_density_fn: of one position.
      step_size: the score is multiplied by it.
      temperature: T of the density exp(-E / T) that the chains follow.
      num_powers: replicas of a chain, at powers from the lowest to 1.
      lowest_power: smallest power; each is the same factor above the last.
      num_inner: moves of every replica between swaps.
    """
    powers = lowest_power ** jnp.linspace(1.0, 0.0, num_powers)
    return samplers.parallel_tempering(
        densities.tempered(log_density_fn, temperature),
        powers=powers,
        step_size=step_size * temperature / powers,
        num_steps=num_inner,
    )


@_like(samplers.pyld)
def pyld(
    density: Any,
    *,
    step_size: Annotated[Any, POSITIVE],
    num_inner: Annotated[int, COUNT] = 5,
    noise_scale: Annotated[Any, NOT_NEGATIVE] = 0.0,
    outer_step_size: Annotated[Any, NOT_NEGATIVE] = 0.0,
    **habits: Any,
) -> Sampler:
    """Returns PYLD on a density with the attributes ``first_layer`` and ``head``.

    Args:
      density: of one position.
      step_size: the score is multiplied by it.
      num_inner: moves for each gradient of the whole network.
      noise_scale: standard deviation of an inner move's noise.
      outer_step_size: step of the move by the whole score before them.
      **habits: max_score, low and high.
    """
    return samplers.pyld(
        density.first_layer,
        density.head,
        step_size=step_size,
        num_inner=num_inner,
        noise_scale=noise_scale,
        outer_step_size=outer_step_size,
        **habits,
    )
