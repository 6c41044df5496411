"""Warm-up of chains: a step size and a diagonal metric, found before the draws and then frozen."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_floating, check_key, check_positive, leading_size
from ebmjax._dual_averaging import dual_averaging_init, dual_averaging_update
from ebmjax._precision import at_least_float32
from ebmjax.samplers._chains import batch_step, start_chain, start_chains, start_key, trace_chain
from ebmjax.samplers._states import position_of
from ebmjax.types import Key, PyTree, acceptance_of

# Stan's schedule: steps before the first window, in it, and after the last one.
FIRST, WINDOW, LAST = 75, 25, 50
PSEUDO_DRAWS, PSEUDO_VARIANCE = 5.0, 1e-3  # Stan's: so many draws of that variance are added


class WarmUpTrace(NamedTuple):
    """Everything that adapted.

    Attributes:
      step_size: (num_steps,), the one that each step was taken with.
      acceptance_prob: (num_steps,), the mean over chains.
      inverse_mass: as the metric, with a leading axis of windows: what each window found.
    """

    step_size: jax.Array
    acceptance_prob: jax.Array
    inverse_mass: PyTree


class WarmUp(NamedTuple):
    """Chains that are ready for draws, and the numbers that their sampler keeps from now on.

    Attributes:
      states: of all chains, started afresh by the frozen sampler where the last step left them.
      step_size: scalar.
      inverse_mass: PyTree like one position, the variance of every coordinate.
      trace: the way there.
    """

    states: Any
    step_size: jax.Array
    inverse_mass: PyTree
    trace: WarmUpTrace


class _Moments(NamedTuple):
    """Draws of a window, all chains together: their number, mean and squares about the mean."""

    count: jax.Array
    mean: PyTree
    squares: PyTree


def warm_up(
    key: Key,
    make_sampler: Callable[[jax.Array, PyTree], Any],
    positions: PyTree,
    *,
    num_steps: int,
    target_acceptance: float = 0.574,
    step_size: float = 0.1,
    adapts_metric: bool = True,
) -> WarmUp:
    """Finds the step size and the diagonal metric of any sampler that accepts or rejects.

    Dual averaging moves the step size at every step, by the acceptance averaged over chains.
    The metric is the variance of the draws of all chains together. It is taken anew in every
    window of Stan's schedule: 75 steps before the first one, windows of 25, 50, 100, ... steps,
    and 50 steps after the last one. Fewer than 150 steps are shared out as 15, 75 and 10 %, and
    fewer than 20 adapt the step size alone. Nothing adapts once this returns, and no state or
    memory of the warm-up reaches the draws except the positions.

    Args:
      key: consumed.
      make_sampler: ``make_sampler(step_size, inverse_mass)``, a ``Sampler`` or BlackJAX's
        ``SamplingAlgorithm`` of one chain, from a scalar and a PyTree like one position. For ours
        the metric multiplies the step size; BlackJAX's kernels take it as
        ``inverse_mass_matrix``.
      positions: PyTree whose leaves share a leading axis of chains; ``position[None]`` for one.
      num_steps: of every chain (static).
      target_acceptance: in (0, 1). The optimum in many dimensions is 0.574 for MALA; take 0.8 for
        Hamiltonian Monte Carlo and NUTS.
      step_size: the first one.
      adapts_metric: False leaves the metric at 1 (static).

    Returns:
      A ``WarmUp``. ``make_sampler(found.step_size, found.inverse_mass)`` is the sampler to draw
      with.

    Raises:
      TypeError: if the sampler's info has no acceptance probability, or what ``make_sampler``
        returns is no sampler.
      ValueError: if a number lies outside its range.

    Example:
      >>> from ebmjax.samplers import mala, run_chain
      >>> def log_density_fn(x):
      ...     return -0.5 * jnp.sum((x / jnp.array([0.1, 1.0, 10.0])) ** 2)
      >>> def make(step_size, inverse_mass):
      ...     return mala(log_density_fn, step_size=step_size * inverse_mass)
      >>> found = warm_up(jax.random.key(0), make, jnp.ones((8, 3)), num_steps=500)
      >>> found.inverse_mass.shape
      (3,)
      >>> step = batch_step(make(found.step_size, found.inverse_mass).step)
      >>> _, draws, infos = run_chain(jax.random.key(1), found.states, step, 100)
      >>> draws.shape
      (8, 100, 3)

    Source: Hoffman & Gelman 2014, section 3.2; the windows are those of Stan's reference manual.
    """
    check_key("key", key)
    check_at_least("num_steps", num_steps, 1)
    check_positive("step_size", step_size)
    check_positive("target_acceptance", target_acceptance)
    if target_acceptance >= 1:
        raise ValueError(f"target_acceptance must be below 1, got {target_acceptance=}.")
    check_floating("positions", positions)
    leading_size("positions", positions)
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[1:], jnp.result_type(leaf)), positions
    )
    unit = at_least_float32(jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), one))
    sampler = make_sampler(jnp.float32(step_size), unit)
    _check_adjusted(key, sampler, one)
    in_window, window, num_windows = _schedule(num_steps, adapts_metric)

    def advance(inputs: Any, carry: Any) -> tuple[Any, Any]:
        key, in_window, window = inputs
        states, averaging, first, inverse_mass, moments, found = carry
        used = jnp.exp(averaging.log_step_size)
        states, infos = batch_step(make_sampler(used, inverse_mass).step)(key, states)
        # A move whose probability is unknown is not made, and counts as refused.
        acceptance = jnp.mean(jnp.nan_to_num(acceptance_of(infos)))
        averaging = dual_averaging_update(
            averaging, acceptance, step_size=first, target=target_acceptance
        )
        moments = _choose(in_window, _pool(moments, position_of(states)), moments)
        is_end, variance = window < num_windows, _variance(moments)
        average = jnp.exp(averaging.log_average)
        averaging = _choose(is_end, dual_averaging_init(average), averaging)
        first = jnp.where(is_end, average, first)
        inverse_mass = _choose(is_end, variance, inverse_mass)
        moments = _choose(is_end, jax.tree.map(jnp.zeros_like, moments), moments)
        found = jax.tree.map(lambda f, v: f.at[window].set(v), found, variance)
        carry = states, averaging, first, inverse_mass, moments, found
        return carry, (used, acceptance)

    states = start_chains(key, sampler, positions)
    zero = jax.tree.map(jnp.zeros_like, unit)
    found = jax.tree.map(lambda leaf: jnp.zeros((num_windows + 1, *leaf.shape), leaf.dtype), unit)
    averaging, moments = dual_averaging_init(step_size), _Moments(jnp.float32(0), zero, zero)
    carry = states, averaging, jnp.float32(step_size), unit, moments, found
    keys = jax.random.split(key, num_steps)
    carry, (used, acceptance) = trace_chain(
        (keys, in_window, window), carry, advance, lambda carry, info: info
    )
    states, averaging, _, inverse_mass, _, found = carry
    found = jax.tree.map(lambda leaf: leaf[:-1], found)  # the last row took what belongs to none
    frozen = jnp.exp(averaging.log_average)
    states = start_chains(start_key(key), make_sampler(frozen, inverse_mass), position_of(states))
    return WarmUp(states, frozen, inverse_mass, WarmUpTrace(used, acceptance, found))


def _check_adjusted(key: Key, sampler: Any, position: PyTree) -> None:
    """Raises TypeError unless a step of ``sampler`` reports an acceptance; nothing compiles."""
    if not (hasattr(sampler, "init") and hasattr(sampler, "step")):
        raise TypeError(
            "make_sampler must return a sampler with init and step, as mala(log_density_fn, "
            f"step_size=step_size * inverse_mass) does; got {type(sampler).__name__}."
        )
    info = jax.eval_shape(
        lambda key, position: sampler.step(key, start_chain(key, sampler, position))[1],
        *(key, position),
    )
    if getattr(acceptance_of(info), "shape", None) != ():
        raise TypeError(
            "warm_up adapts to an acceptance: the sampler of make_sampler must report a scalar "
            f"info.acceptance_prob (BlackJAX: acceptance_rate); got {type(info).__name__}. Use "
            "mala, tempered_mala or a kernel of BlackJAX that rejects, such as nuts."
        )


def _schedule(num_steps: int, adapts_metric: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns Stan's windows.

    Returns:
      Whether each step belongs to a window; the window that each step ends, or else the number of
      windows; and that number.
    """
    first, window, last = FIRST, WINDOW, LAST
    if first + window + last > num_steps:
        first, last = int(0.15 * num_steps), int(0.1 * num_steps)
        window = num_steps - first - last
    stop = num_steps - last
    ends, begin = [], first
    while begin < stop and adapts_metric and num_steps >= 20:
        # A window that would leave too few steps for the next one, twice as long, takes them all.
        end = begin + window if 3 * window <= stop - begin else stop
        ends.append(end - 1)
        begin, window = end, 2 * window
    index = np.full(num_steps, len(ends))
    index[ends] = np.arange(len(ends))
    in_window = (np.arange(num_steps) >= first) & (np.arange(num_steps) < stop) & (len(ends) > 0)
    return in_window, index, len(ends)


def _pool(moments: _Moments, draws: PyTree) -> _Moments:
    """Returns ``moments`` with one draw of every chain added (leading axis)."""
    draws = at_least_float32(draws)
    num_new = leading_size("draws", draws)
    count = moments.count + num_new
    mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), draws)
    shift = jax.tree.map(jnp.subtract, mean, moments.mean)
    between = moments.count * num_new / count
    squares = jax.tree.map(
        lambda old, x, d: old + num_new * jnp.var(x, axis=0) + between * d**2,
        *(moments.squares, draws, shift),
    )
    mean = jax.tree.map(lambda old, d: old + d * (num_new / count), moments.mean, shift)
    return _Moments(count, mean, squares)


def _variance(moments: _Moments) -> PyTree:
    """Returns the variance of a window, drawn to a small number where draws are few."""
    count = moments.count
    share = count / (count + PSEUDO_DRAWS)
    return jax.tree.map(
        lambda s: share * s / jnp.maximum(count - 1, 1) + (1 - share) * PSEUDO_VARIANCE,
        moments.squares,
    )


def _choose(condition: jax.Array, new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(partial(jnp.where, condition), new, old)
