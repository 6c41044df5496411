"""Chains of every sampler on a learned energy: run, timed, judged."""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, samplers
from ebmjax.densities import from_energy
from ebmjax.recipes import samplers as shared
from ebmjax.recipes.samplers.blackjax_kernels import hmc
from ebmjax.recipes.samplers.literal_mala import literal_mala
from ebmjax.recipes.samplers.literal_psgld import literal_psgld
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

INTERACTING = ("svgd", "stochastic_svgd")


def mala_by_energies(log_density_fn: LogDensityFn, *, step_size: Any) -> Sampler:
    """The thesis's Alg. 5: noise as in Langevin dynamics, and the ratio of energies decides."""
    return literal_mala(
        log_density_fn, step_size=step_size, noise_scale=jnp.sqrt(2.0 * jnp.asarray(step_size))
    )


SAMPLERS: dict[str, Callable[..., Any]] = {
    **shared.SAMPLERS,
    "literal_mala": mala_by_energies,
    "literal_psgld": literal_psgld,
    "svgd": samplers.svgd,
    "stochastic_svgd": samplers.stochastic_svgd,
    "hmc": partial(hmc, num_coordinates=2),
}


class Chains(NamedTuple):
    """Record of a sampler's chains.

    Attributes:
      positions: (chains, steps, 2), burn-in included.
      acceptance_prob: mean after the burn-in; NaN where none is defined.
      temperature: mean over chains of the last; NaN for all samplers but tempered ones.
      seconds: of the compiled program, all steps of all chains.
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
    name: str,
    options: Mapping[str, Any],
    *,
    num_steps: int,
    burn_in: int,
) -> Chains:
    """``num_steps`` of the sampler ``name`` from ``starts`` (chains, 2), run twice and timed once.

    The parameters and all options but counts are arguments of the compiled program, so it serves
    every seed and every step size.
    """
    counts = tuple((k, v) for k, v in options.items() if isinstance(v, int))
    traced = {k: v for k, v in options.items() if not isinstance(v, int)}
    program = partial(
        _run,
        key,
        starts,
        params,
        traced,
        energy_fn=energy_fn,
        name=name,
        counts=counts,
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


@partial(jax.jit, static_argnames=("energy_fn", "name", "counts", "num_steps", "burn_in"))
def _run(
    key: Key,
    starts: jax.Array,
    params: PyTree,
    options: dict[str, Any],
    *,
    energy_fn: Callable[..., jax.Array],
    name: str,
    counts: tuple[tuple[str, int], ...],
    num_steps: int,
    burn_in: int,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Positions (chains, steps, 2), of particles too, and what the sampler reports of itself."""
    log_density_fn = from_energy(partial(energy_fn, params))
    sampler = SAMPLERS[name](log_density_fn, **options, **dict(counts))
    if name in INTERACTING:
        _, positions, infos = samplers.run_chain(key, sampler.init(starts), sampler.step, num_steps)
        positions = jnp.swapaxes(positions, 0, 1)
    else:
        state, step = jax.vmap(sampler.init)(starts), samplers.batch_step(sampler.step)
        _, positions, infos = samplers.run_chain(key, state, step, num_steps)
    reported = {}
    if hasattr(infos, "acceptance_prob") or hasattr(infos, "acceptance_rate"):
        judged = jax.tree.map(lambda leaf: leaf[:, burn_in:], infos)
        rates = metrics.acceptance_rate(judged, allow_few_draws=True)
        reported["acceptance_prob"] = jnp.mean(rates)
    if hasattr(infos, "temperature"):
        reported["temperature"] = jnp.mean(infos.temperature[:, -1])
    return positions, reported
