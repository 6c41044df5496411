"""Runs and times chains of any sampler on a learned density of points."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, samplers
from ebmjax._programs import make_program
from ebmjax.recipes.parts.samplers import Chosen
from ebmjax.recipes.parts.samplers.bind import bind_sampler
from ebmjax.types import Key, LogDensityFn, PyTree


class ChainRecord(NamedTuple):
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

    def numbers(self, judged: Mapping[str, float]) -> dict[str, float]:
        """Returns what the sampler reports, and the effective sizes of ``judged`` a second."""
        return {
            "acceptance_prob": self.acceptance_prob,
            "temperature": self.temperature,
            "seconds": self.seconds,
            "ess_per_second": judged["ess"] / self.seconds,
            "ess_within_per_second": judged["ess_within"] / self.seconds,
        }


def run(
    key: Key,
    starts: jax.Array,
    log_density_of: Callable[[PyTree], LogDensityFn],
    params: PyTree,
    chosen: Chosen,
    *,
    num_steps: int,
    burn_in: int,
) -> ChainRecord:
    """Runs ``num_steps`` of a sampler from ``starts`` (chains, 2), twice, and times it once.

    The parameters and all numbers but counts are arguments of the compiled program, so it serves
    every seed and every step size.
    """
    bound, is_interacting = bind_sampler(chosen, {}), chosen.entry.interacting

    def move(key: Key, starts: jax.Array, params: PyTree) -> tuple[jax.Array, Any, Any]:
        sampler = bound(log_density_of(params))
        if is_interacting:
            state, step = sampler.init(starts), sampler.step
        else:
            state = samplers.start_chains(key, sampler, starts)
            step = samplers.batch_step(sampler.step)
        _, positions, infos = samplers.run_chain(key, state, step, num_steps)
        positions = jnp.swapaxes(positions, 0, 1) if is_interacting else positions
        acceptance_prob = temperature = jnp.nan
        if samplers.acceptance_of(infos) is not None:
            judged = jax.tree.map(lambda leaf: leaf[:, burn_in:], infos)
            acceptance_prob = jnp.mean(metrics.acceptance_rate(judged, allow_few_draws=True))
        if hasattr(infos, "temperature"):
            temperature = jnp.mean(infos.temperature[:, -1])
        return positions, acceptance_prob, temperature

    program = make_program(move, key, starts, params)
    jax.block_until_ready(program(key, starts, params))
    began = time.perf_counter()
    found = jax.block_until_ready(program(key, starts, params))
    seconds = time.perf_counter() - began
    positions, acceptance_prob, temperature = map(np.asarray, found)
    return ChainRecord(positions, float(acceptance_prob), float(temperature), seconds)
