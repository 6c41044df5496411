"""Runs and times chains of any sampler on a learned density of points."""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics, samplers
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
        log_density_of=log_density_of,
        like=chosen._replace(options=(), part=chosen.part and chosen.part._replace(options=())),
        static=tuple(static.items()),
        num_steps=num_steps,
        burn_in=burn_in,
    )
    jax.block_until_ready(program())
    began = time.perf_counter()
    positions, reported = jax.block_until_ready(program())
    seconds = time.perf_counter() - began
    return ChainRecord(
        np.asarray(positions),
        float(reported.get("acceptance_prob", math.nan)),
        float(reported.get("temperature", math.nan)),
        seconds,
    )


@partial(jax.jit, static_argnames=("log_density_of", "like", "static", "num_steps", "burn_in"))
def _run(
    key: Key,
    starts: jax.Array,
    params: PyTree,
    options: dict[str, Any],
    *,
    log_density_of: Callable[[PyTree], LogDensityFn],
    like: Any,
    static: tuple[tuple[str, Any], ...],
    num_steps: int,
    burn_in: int,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Positions (chains, steps, 2), of particles too, and what the sampler reports of itself."""
    chosen = like._replace(options=options | dict(static))
    sampler = bind_sampler(chosen, {}, starts.shape[1:])(log_density_of(params))
    if chosen.entry.interacting:
        state, step = sampler.init(starts), sampler.step
    else:
        state = samplers.start_chains(key, sampler, starts)
        step = samplers.batch_step(sampler.step)
    _, positions, infos = samplers.run_chain(key, state, step, num_steps)
    if chosen.entry.interacting:
        positions = jnp.swapaxes(positions, 0, 1)
    reported = {}
    if samplers.acceptance_of(infos) is not None:
        judged = jax.tree.map(lambda leaf: leaf[:, burn_in:], infos)
        rates = metrics.acceptance_rate(judged, allow_few_draws=True)
        reported["acceptance_prob"] = jnp.mean(rates)
    if hasattr(infos, "temperature"):
        reported["temperature"] = jnp.mean(infos.temperature[:, -1])
    return positions, reported
