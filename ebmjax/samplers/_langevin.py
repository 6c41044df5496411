"""Parts of every Langevin sampler: score a position, propose a move, weigh the move."""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import is_spread
from ebmjax._checks import (
    check_broadcasts,
    check_floating,
    check_not_negative,
    check_positive,
    check_scalar_density,
    per_leaf,
)
from ebmjax.types import Key, LogDensityFn, PyTree


class LangevinState(NamedTuple):
    """A position with its log density and score, so that a step costs one gradient.

    Attributes:
      position: any PyTree of floating-point arrays; one chain.
      log_density: scalar, of the density the state was initialised with.
      score: gradient of the log density at ``position``, shaped like it.
    """

    position: PyTree
    log_density: jax.Array
    score: PyTree


class LogDensityInfo(NamedTuple):
    """Report of a sampler without a Metropolis-Hastings test: the new log density, a scalar."""

    log_density: jax.Array


class LangevinInfo(NamedTuple):
    """Report of one Langevin step.

    Attributes:
      acceptance_prob: scalar in [0, 1], the Metropolis-Hastings acceptance probability of the
        proposed move, whether or not the sampler rejects.
      is_accepted: scalar bool; always true for a sampler that never rejects.
      log_density: scalar, at the new position.
    """

    acceptance_prob: jax.Array
    is_accepted: jax.Array
    log_density: jax.Array


def langevin_init(position: PyTree, log_density_fn: LogDensityFn) -> LangevinState:
    """Scores ``position`` (any PyTree of floating-point arrays, one chain).

    The state belongs to one density. When the density changes (a model in training), initialise
    again; otherwise an acceptance test compares two different functions.
    """
    check_floating("position", position)
    # The dtype is explicit: a Python number's weak type would change after one step and compile the
    # second step again.
    position = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), position)
    check_scalar_density(log_density_fn, position)
    log_density, score = jax.value_and_grad(log_density_fn)(position)
    return LangevinState(position, log_density, score)


def find_temperature(
    step_size: Any, noise_scale: Any, temperature: Any, position: PyTree
) -> jax.Array:
    """Returns the temperature that a sampler without rejection has, and checks all three numbers.

    It is ``temperature``, 1 for None, or the one at which a free noise is exact, ``noise_scale^2 /
    (2 step_size)``, averaged over coordinates: 5e-5 for JEM's step 1 with noise 0.01. It is 1
    without noise, where no move has a way back at any temperature. Raises ValueError for both: the
    noise alone decides what such a sampler samples.
    """
    if noise_scale is not None and temperature is not None:
        raise ValueError(
            f"noise_scale and temperature must not be given together, got noise_scale={noise_scale}"
            f" and temperature={temperature}: the noise sets the temperature, "
            "noise_scale^2 / (2 step_size). Leave out one of them."
        )
    temperature = 1.0 if temperature is None else temperature
    check_langevin(step_size, noise_scale, temperature, position)
    if noise_scale is None:
        return temperature

    def implied(x: jax.Array, step: Any, scale: Any) -> jax.Array:
        return jnp.mean(jnp.square(scale) / (2.0 * jnp.asarray(step))) * jnp.size(x)

    steps, scales = per_leaf(step_size, position), per_leaf(noise_scale, position)
    total = optax.tree.sum(jax.tree.map(implied, position, steps, scales))
    mean = total / optax.tree.size(position)
    return jnp.where(mean == 0, 1.0, mean)


def check_langevin(step_size: Any, noise_scale: Any, temperature: Any, position: PyTree) -> None:
    """Raises ValueError for a concrete hyperparameter out of range, and for a wrong shape.

    There is one temperature a chain: several would leave no single density to accept by.
    """
    check_positive("step_size", step_size)
    check_broadcasts("step_size", step_size, position)
    check_positive("temperature", temperature, is_scalar=True)
    if noise_scale is not None:
        check_not_negative("noise_scale", noise_scale)
        check_broadcasts("noise_scale", noise_scale, position)


def log_proposal_ratio(noise: PyTree, shift: PyTree) -> jax.Array:
    """Returns ``log q(x|y) - log q(y|x)`` of a Gaussian move ``y = x + a s(x) + b noise``.

    ``shift`` is ``a (s(x) + s(y)) / b``: in units of the noise, the way back starts at
    ``-(noise + shift)``. So nothing cancels in float32.
    """

    def total(n: jax.Array, r: jax.Array) -> jax.Array:
        products = ((n + 0.5 * r) * r).astype(jnp.promote_types(r.dtype, jnp.float32))
        if is_spread(products):  # whose product with ones an explicit mesh refuses
            return jnp.sum(products)
        # The sum is written as a product with ones: over many chains it becomes one matrix product.
        # XLA's reduction on a CPU would double the cost of a MALA step.
        products = jnp.ravel(products)
        ones = jnp.ones_like(products)
        return jnp.dot(products, ones, precision=jax.lax.Precision.HIGHEST)

    return -jax.tree.reduce(jnp.add, jax.tree.map(total, noise, shift))


def acceptance_probability(log_ratio: jax.Array, proposed_log_density: jax.Array) -> jax.Array:
    """``min(1, exp(log_ratio))``; 0 where the ratio is NaN or the proposal's density is +inf."""
    is_usable = ~jnp.isnan(log_ratio) & (proposed_log_density < jnp.inf)
    return jnp.where(is_usable, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)


def accept(
    coin_key: Key, state: Any, proposed: Any, acceptance_prob: jax.Array
) -> tuple[Any, LangevinInfo]:
    """Returns the proposed state with its probability, else the old one, and the report."""
    is_accepted = jax.random.uniform(coin_key, dtype=acceptance_prob.dtype) < acceptance_prob
    state = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposed, state)
    return state, LangevinInfo(acceptance_prob, is_accepted, state.log_density)


def propose(
    key: Key,
    state: Any,
    log_density_fn: LogDensityFn,
    *,
    step_size: Any,
    noise_scale: Any,
    temperature: Any,
    metric: PyTree = 1.0,
    drift_fn: Callable[[PyTree], PyTree] = lambda score: score,
) -> tuple[LangevinState, jax.Array]:
    """Proposes ``x + step_size * drift_fn(score) + noise_scale * xi``; returns its acceptance, too.

    The target is ``log_density / temperature``. A ``noise_scale`` of None is the exact one in the
    ``metric``, ``sqrt(2 step_size temperature metric)``. Without noise the way back is impossible,
    so the probability is 0.
    """
    position = state.position
    steps, scales = per_leaf(step_size, position), per_leaf(noise_scale, position)
    if noise_scale is None:
        scales = jax.tree.map(
            lambda step, g: jnp.sqrt(2.0 * step * (temperature * g)),
            steps,
            per_leaf(metric, position),
        )
    noise = optax.tree.random_like(key, position)
    drift = jax.tree.map(jnp.multiply, steps, drift_fn(state.score))
    moved = jax.tree.map(
        lambda x, d, scale, n: (x + d + scale * n).astype(x.dtype), position, drift, scales, noise
    )
    # Not by langevin_init, whose checks trace the density once more.
    proposed = LangevinState(moved, *jax.value_and_grad(log_density_fn)(moved))

    if noise_scale is not None:  # divided by 1 instead: 0 / 0 would spoil derivatives, used or not
        is_still = [jnp.any(jnp.equal(scale, 0)) for scale in jax.tree.leaves(scales)]
        scales = jax.tree.map(lambda s: jnp.where(jnp.equal(s, 0), 1.0, s), scales)
    back = jax.tree.map(jnp.multiply, steps, drift_fn(proposed.score))
    shift = jax.tree.map(lambda a, b, scale: (a + b) / scale, drift, back, scales)
    log_ratio = (proposed.log_density - state.log_density) / temperature
    log_ratio = log_ratio + log_proposal_ratio(noise, shift)
    if noise_scale is not None:
        log_ratio = jnp.where(reduce(jnp.logical_or, is_still), -jnp.inf, log_ratio)
    return proposed, acceptance_probability(log_ratio, proposed.log_density)
