"""Runs, times and judges chains of every sampler on a learned energy."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, samplers
from ebmjax.densities import from_energy
from ebmjax.recipes.parts.samplers import Chosen
from ebmjax.recipes.parts.samplers.bind import bind_sampler
from ebmjax.types import Key, LogDensityFn, Metrics, PyTree


class Chains(NamedTuple):
    """Record of a sampler's chains.

    Attributes:
      positions: (chains, steps, 2), burn-in included.
      acceptance_prob: mean after the burn-in; NaN where none is defined.
      temperature: mean over chains of the last temperature; NaN for other samplers than tempered.
      seconds: time of the compiled program, all steps of all chains.
    """

    positions: np.ndarray
    acceptance_prob: float
    temperature: float
    seconds: float


def run(
    key: Key,
    starts: jax.Array,
    energy_fn: Callable[..., jax.Array],
    params: PyTree,
    chosen: Chosen,
    *,
    num_steps: int,
    burn_in: int,
) -> Chains:
    """``num_steps`` of a sampler from ``starts`` (chains, 2), run twice and timed once.

    The parameters and all numbers but counts are arguments of the compiled program, so it serves
    every seed and every step size.
    """
    static = {k: v for k, v in chosen.options.items() if isinstance(v, int | str)}
    traced = {k: v for k, v in chosen.options.items() if k not in static}
    program = partial(
        _run,
        key,
        starts,
        params,
        traced,
        energy_fn=energy_fn,
        like=chosen._replace(options=(), part=chosen.part and chosen.part._replace(options=())),
        static=tuple(static.items()),
        num_steps=num_steps,
        burn_in=burn_in,
    )
    jax.block_until_ready(program())
    began = time.perf_counter()
    positions, reported = jax.block_until_ready(program())
    seconds = time.perf_counter() - began
    return Chains(
        np.asarray(positions),
        float(reported.get("acceptance_prob", math.nan)),
        float(reported.get("temperature", math.nan)),
        seconds,
    )


@partial(jax.jit, static_argnames=("energy_fn", "like", "static", "num_steps", "burn_in"))
def _run(
    key: Key,
    starts: jax.Array,
    params: PyTree,
    options: dict[str, Any],
    *,
    energy_fn: Callable[..., jax.Array],
    like: Any,
    static: tuple[tuple[str, Any], ...],
    num_steps: int,
    burn_in: int,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Positions (chains, steps, 2), of particles too, and what the sampler reports of itself."""
    chosen = like._replace(options=options | dict(static))
    log_density_fn = from_energy(partial(energy_fn, params))
    _, positions, infos = run_from(chosen, {}, key, starts, log_density_fn, num_steps)
    reported = {}
    if samplers.acceptance_of(infos) is not None:
        judged = jax.tree.map(lambda leaf: leaf[:, burn_in:], infos)
        rates = metrics.acceptance_rate(judged, allow_few_draws=True)
        reported["acceptance_prob"] = jnp.mean(rates)
    if hasattr(infos, "temperature"):
        reported["temperature"] = jnp.mean(infos.temperature[:, -1])
    return positions, reported


def run_from(
    chosen: Chosen,
    section: Any,
    key: Key,
    starts: jax.Array,
    log_density_fn: LogDensityFn,
    num_steps: int,
    **kept: int,
) -> tuple[jax.Array, jax.Array, PyTree]:
    """Runs chains, or particles that interact, from ``starts`` (chains, 2).

    Args:
      chosen: the sampler.
      section: ``config.sampler``, or an empty one.
      key: of all moves.
      starts: of the chains.
      log_density_fn: of one point.
      num_steps: of each chain.
      kept: burn_in and thinning, as ``run_chain`` takes them.

    Returns:
      Ends (chains, 2), kept draws (chains, draws, 2), and ``run_chain``'s infos.
    """
    sampler = bind_sampler(chosen, section, (2,))(log_density_fn)
    if chosen.entry.interacting:
        state, step = sampler.init(starts), sampler.step
    else:
        state = samplers.start_chains(key, sampler, starts)
        step = samplers.batch_step(sampler.step)
    state, positions, infos = samplers.run_chain(key, state, step, num_steps, **kept)
    if chosen.entry.interacting:
        positions = jnp.swapaxes(positions, 0, 1)
    return samplers.position_of(state), positions, infos


def mean_acceptance(infos: PyTree) -> Metrics:
    """Returns the mean of what the moves report as "chain_acceptance_prob", if they report it."""
    acceptance = samplers.acceptance_of(infos)
    return {} if acceptance is None else {"chain_acceptance_prob": jnp.mean(acceptance)}
