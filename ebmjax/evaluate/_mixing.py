"""How well long chains of an energy mix."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from ebmjax import metrics, samplers
from ebmjax.types import Key, LogDensityFn, Sampler

NUM_DRAWS = 50
"""Draws of each chain that mixing is judged by, at most about."""


def mixing(
    key: Key,
    sampler_fn: Callable[[LogDensityFn], Sampler],
    log_density_fn: LogDensityFn,
    starts: jax.Array,
    *,
    num_steps: int,
) -> dict[str, jax.Array]:
    """Returns how well parallel chains mix over the second half of their steps. Jittable.

    Args:
      key: consumed.
      sampler_fn: log density to sampler, such as ``functools.partial(sgld, step_size=1.0)``; of one
        chain.
      log_density_fn: of one position, minus the energy.
      starts: (chains, ...), at least two, drawn apart so that R-hat can notice what was not found.
      num_steps: of each chain; at most about 50 of the second half are kept.

    Returns:
      "rhat_energy" and "rhat_pixel", the mean "acceptance", NaN for a sampler that reports none,
      and the mean "squared_distance" that a chain moved, a coordinate. "rhat_pixel" is the median
      over coordinates in which every chain moves. It is NaN if a position is NaN.

    Example:
      >>> normal = lambda x: -0.5 * jnp.sum(x**2)
      >>> sampler_fn = partial(samplers.mala, step_size=1.0)
      >>> found = mixing(jax.random.key(0), sampler_fn, normal, jnp.ones((8, 2)), num_steps=400)
      >>> bool(found["rhat_pixel"] < 1.1)
      True
    """
    sampler, burn_in = sampler_fn(log_density_fn), num_steps // 2
    _, chains, infos = samplers.run_chain(
        key,
        samplers.start_chains(key, sampler, starts),
        samplers.batch_step(sampler.step),
        num_steps,
        burn_in=burn_in,
        thinning=max(1, (num_steps - burn_in) // NUM_DRAWS),
    )
    trace = jax.vmap(jax.vmap(log_density_fn))(chains)
    acceptance = samplers.acceptance_of(infos)  # None for samplers that report none
    scale_reduction = partial(metrics.potential_scale_reduction, allow_few_draws=True)
    return {
        "rhat_energy": scale_reduction(trace),
        "rhat_pixel": jnp.where(
            jnp.any(jnp.isnan(chains)), jnp.nan, jnp.nanmedian(scale_reduction(chains))
        ),
        "acceptance": jnp.mean(jnp.nan if acceptance is None else acceptance),
        "squared_distance": jnp.mean(jnp.square(chains[:, -1] - chains[:, 0])),
    }
