"""The temperature at which a density fits data best."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least
from ebmjax.samplers import FactorGaussian, batch_step, mala, start_chains
from ebmjax.types import Key, LogDensityFn

TARGET, GAIN, MOST = 0.6, 0.3, 0.3
"""Acceptance of the chains, gain of both adaptations, and the largest move of log T."""


def fit_temperature(
    key: Key,
    log_density_fn: LogDensityFn,
    positions: Any,
    coordinates: FactorGaussian,
    *,
    extend: Callable[[LogDensityFn], LogDensityFn] = lambda density: density,
    num_chains: int = 64,
    num_rounds: int = 200,
    num_steps: int = 5,
) -> float:
    r"""Returns the T for which ``exp(log_density_fn / T)`` gives data the largest likelihood.

    There the mean log density of the data is that of the model's samples. MALA chains start at data
    and follow the density, while :math:`\log T` takes damped Newton steps:

    .. math:: \Delta \log T = T\, \frac{E_p f - E_{\text{data}} f}{\operatorname{Var}_p f}

    The mean of the second half of the rounds is returned. Chains are short, so it is an estimate:
    any T is a density, and log Z is found anew.

    Args:
      key: consumed.
      log_density_fn: f, one position to a scalar.
      positions: data (n, *shape).
      coordinates: one Gaussian, in whose whitened coordinates the chains move.
      extend: of a density the one that chains follow, such as ``unfold`` with its box.
      num_chains, num_rounds, num_steps: chains, rounds of the temperature, and steps in each.
    """
    for name, value in {"num_chains": num_chains, "num_rounds": num_rounds}.items():
        check_at_least(name, value, 2)
    pick_key, start_key, *keys = jax.random.split(key, 2 + num_rounds)
    positions = jnp.asarray(positions)
    flat = extend(lambda x: jnp.float32(0))

    def rounds(positions: jax.Array, pick_key: Key, keys: jax.Array) -> jax.Array:
        values = jax.lax.map(log_density_fn, positions, batch_size=num_chains)
        picked = jax.random.choice(pick_key, positions, (num_chains,))
        wanted, size = jnp.mean(values), positions[0].size

        def one(carry: Any, key: Key) -> tuple[Any, jax.Array]:
            z, log_t, log_step = carry
            tempered = extend(lambda x: log_density_fn(x) / jnp.exp(log_t))
            chain = mala(lambda z: tempered(coordinates.place(z)), step_size=jnp.exp(log_step))
            states = start_chains(start_key, chain, z)
            step = batch_step(chain.step)
            keys = jax.random.split(key, num_steps)
            states, infos = jax.lax.scan(lambda s, k: step(k, s), states, keys)
            own = jax.vmap(lambda z: flat(coordinates.place(z)))(states.position)
            found = (states.log_density - own) * jnp.exp(log_t)
            move = jnp.exp(log_t) * (jnp.mean(found) - wanted) / jnp.var(found)
            log_t += GAIN * jnp.clip(jnp.nan_to_num(move), -MOST / GAIN, MOST / GAIN)
            log_step += GAIN * (jnp.mean(infos.acceptance_prob) - TARGET)
            return (states.position, log_t, log_step), log_t

        # Of a Gaussian the log density's variance is T^2 d / 2.
        log_t = jnp.log(jnp.std(values) / jnp.sqrt(size / 2) + 1e-12)
        start = jax.vmap(coordinates.coordinates_of)(picked), log_t, jnp.log(jnp.float32(0.1))
        return jax.lax.scan(one, start, keys)[1]

    found = jax.jit(rounds)(positions, pick_key, jnp.stack(keys))
    return float(np.exp(np.mean(np.asarray(found, np.float64)[num_rounds // 2 :])))
