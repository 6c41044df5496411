"""Replicas that exchange along the powers, and powers at which all pairs do so equally often."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.samplers import start_key
from ebmjax.types import Key, LogDensityFn, Step


class Exchange(NamedTuple):
    """Chains that exchange, (num_powers, batch), and sums over their steps.

    ``replicas``, int8 (num_powers + 1, batch), is their memory: 1 for a replica since it was at the
    lowest power, 2 since it was at the highest thereafter, 0 before; last the parity of next swaps.
    """

    states: Any
    replicas: jax.Array
    num_steps: jax.Array
    swap_prob: jax.Array
    round_trips: jax.Array


def start_exchange(states: Any, replicas: jax.Array | None) -> Exchange:
    """Returns what the step of ``exchanging`` takes; refuses states that no swap can rescale."""
    fields = getattr(states, "_fields", ())
    if set(fields) - {"velocity"} != {"position", "log_density", "score"}:
        raise ValueError(
            "exchange_every needs a posterior sampler whose state has position, log_density, score "
            f"and at most a velocity; got {fields}. Take sgld, mala or hmc, or exchange_every=0."
        )
    zeros = jnp.zeros_like(states.log_density)
    if replicas is None:
        replicas = jnp.pad(zeros, ((0, 1), (0, 0))).astype(jnp.int8)
    return Exchange(states, replicas.at[0].set(1), jnp.int32(0), zeros[1:], zeros[0])


def exchanging(
    step: Step, every: int, log_prior_fn: LogDensityFn, powers: jax.Array, temperature: Any
) -> Step:
    r"""Returns ``step`` of the states in an ``Exchange``, with swaps after every ``every`` steps.

    With :math:`L_t = \log p + t\, \ell` a swapped state needs the prior's gradient alone:
    :math:`L_{t'} = \log p + (t' / t) (L_t - \log p)`, and so its score. The prior's rounding grows
    by t' / t until the replica moves.
    """
    score_prior = jax.vmap(jax.vmap(jax.value_and_grad(log_prior_fn)))

    def swap(key: Key, now: Exchange) -> Exchange:
        states, direction, parity = now.states, now.replicas[:-1], now.replicas[-1:]
        prior, prior_score = score_prior(states.position)
        ladder = jnp.broadcast_to(powers[:, None], prior.shape)
        values = (states.log_density - prior) / ladder
        odds = jnp.diff(ladder, axis=0) * (values[:-1] - values[1:]) / temperature
        prob = jnp.where(jnp.isnan(odds), 0.0, jnp.exp(jnp.minimum(odds, 0.0)))
        is_swapped = jax.random.uniform(key, prob.shape, prob.dtype) < prob
        is_swapped &= jnp.arange(len(prob))[:, None] % 2 == parity
        here = jnp.arange(len(ladder))[:, None]
        # The replica that goes to each power: of a swapped pair the other one.
        order = here + jnp.pad(is_swapped, ((0, 1), (0, 0))) - jnp.pad(is_swapped, ((1, 0), (0, 0)))

        def exchange(leaf: jax.Array) -> jax.Array:
            return jnp.take_along_axis(leaf, jnp.expand_dims(order, range(2, leaf.ndim)), axis=0)

        def rescale(whole: jax.Array, of_prior: jax.Array) -> jax.Array:
            ratio = jnp.expand_dims(ladder / exchange(ladder), range(2, whole.ndim))
            moved = exchange(of_prior) + ratio * exchange(whole - of_prior)
            return jnp.where(ratio == 1, whole, moved)

        position, log_density = exchange(states.position), rescale(states.log_density, prior)
        score = rescale(states.score, prior_score)
        states = states._replace(position=position, log_density=log_density, score=score)
        direction = exchange(direction)
        round_trips = now.round_trips + (direction[0] == 2)
        top = jnp.where(direction[-1] == 1, 2, direction[-1])
        replicas = jnp.concatenate([direction.at[0].set(1).at[-1].set(top), 1 - parity])
        return Exchange(states, replicas, now.num_steps, now.swap_prob + prob, round_trips)

    def step_and_swap(key: Key, now: Exchange) -> tuple[Exchange, Any]:
        states, info = step(key, now.states)
        now = now._replace(states=states, num_steps=now.num_steps + 1)
        is_due = now.num_steps % every == 0
        return jax.lax.cond(is_due, lambda: swap(start_key(key), now), lambda: now), info

    return step_and_swap


def place_powers(powers: jax.Array, swap_acceptance: jax.Array) -> jax.Array:
    r"""Returns powers whose pairs reject equally, by the rejections at ``powers``.

    The rejections of pairs add up to the communication barrier, of which each pair gets an equal
    share. Between powers it is taken as linear in :math:`\log t`, as for a Gaussian posterior. The
    first two powers and the last stay: no pair reaches the prior's chains at 0.

    Args:
      powers: from 0 to 1, shape (num_powers,).
      swap_acceptance: of each pair above 0, shape (num_powers - 2,), as of ``sample_ladder``.

    Source: Syed, Bouchard-Cote, Deligiannidis & Doucet 2022 (JRSS-B 84), Sec. 5.
    """
    if jnp.shape(swap_acceptance) != (len(powers) - 2,):
        raise ValueError(
            "swap_acceptance must have one entry for each pair of powers above 0, shape "
            f"({len(powers) - 2},), got {jnp.shape(swap_acceptance)}."
        )
    # A pair that never rejects still takes a part, or its powers would coincide.
    barrier = jnp.cumsum(jnp.pad(jnp.maximum(1.0 - swap_acceptance, 1e-3), (1, 0)))
    shares = jnp.linspace(0.0, barrier[-1], len(barrier))
    inner = jnp.exp(jnp.interp(shares[1:-1], barrier, jnp.log(powers[1:])))
    return powers.at[2:-1].set(inner)
