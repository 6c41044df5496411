"""Warm-up of chains: a step size and a diagonal metric, found before the draws and then frozen."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from ebmjax._checks import check_at_least, check_floating, check_key, check_positive, leading_size
from ebmjax._dual_averaging import dual_averaging_init, dual_averaging_update
from ebmjax._precision import at_least_float32
from ebmjax.samplers._chains import batch_step, start_chain, start_chains, start_key, trace_chain
from ebmjax.samplers._states import acceptance_of, position_of
from ebmjax.types import Key, PyTree

# Stan's schedule: steps before the first window, in it, and after the last one.
FIRST, WINDOW, LAST = 75, 25, 50
PSEUDO_DRAWS, PSEUDO_VARIANCE = 5.0, 1e-3  # Stan's: so many draws of that variance are added


class WarmUp(NamedTuple):
    """Chains that are ready for draws, and the numbers that their sampler keeps from now on.

    Attributes:
      states: of all chains, started afresh by the frozen sampler where the last step left them.
      step_size: scalar.
      inverse_mass: PyTree like one position, the variance of every coordinate.
      step_sizes, acceptance_probs: of every step of the warm-up, the acceptance a mean over chains.
    """

    states: Any
    step_size: jax.Array
    inverse_mass: PyTree
    step_sizes: jax.Array
    acceptance_probs: jax.Array


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
    The metric is the variance of the draws of all chains together, anew in every window of Stan's
    schedule: 75 steps before the first one, windows of 25, 50, 100, ... steps, and 50 after the
    last one. Fewer than 150 steps are shared out as 15, 75 and 10 %, and fewer than 20 adapt the
    step size alone.

    Args:
      key: consumed.
      make_sampler: ``make_sampler(step_size, inverse_mass)``, a ``Sampler`` or BlackJAX's
        ``SamplingAlgorithm`` of one chain. For ours the metric multiplies the step size; BlackJAX's
        kernels take it as ``inverse_mass_matrix``.
      positions: PyTree whose leaves share a leading axis of chains; ``position[None]`` for one.
      num_steps: of every chain (static).
      target_acceptance: in (0, 1). The optimum in many dimensions is 0.574 for MALA; take 0.8 for
        Hamiltonian Monte Carlo and NUTS.
      step_size: the first one.
      adapts_metric: False leaves the metric at 1 (static).

    Returns:
      A ``WarmUp``; ``make_sampler(found.step_size, found.inverse_mass)`` draws by it.

    Source: Hoffman & Gelman 2014, section 3.2; the windows are those of Stan's reference manual.
    """
    check_key("key", key)
    check_at_least("num_steps", num_steps, 1)
    averaging = dual_averaging_init(step_size)
    check_positive("target_acceptance", target_acceptance)
    if target_acceptance >= 1:
        raise ValueError(f"target_acceptance must be below 1, got {target_acceptance=}.")
    check_floating("positions", positions)
    leading_size("positions", positions)
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[1:], jnp.result_type(leaf)), positions
    )
    unit, unravel = ravel_pytree(at_least_float32(optax.tree.ones_like(one)))
    sampler = make_sampler(jnp.float32(step_size), unravel(unit))
    _check_adjusted(key, sampler, one)

    def advance(inputs: Any, carry: Any) -> tuple[Any, Any]:
        key, in_window, ends_window = inputs
        states, moments, averaging, first, inverse_mass = carry
        used = jnp.exp(averaging.log_step_size)
        states, infos = batch_step(make_sampler(used, unravel(inverse_mass)).step)(key, states)
        # A move whose probability is unknown is not made, and counts as refused.
        acceptance = jnp.mean(jnp.nan_to_num(acceptance_of(infos)))
        averaging = dual_averaging_update(
            averaging, acceptance, step_size=first, target=target_acceptance
        )
        rows = jax.vmap(lambda x: ravel_pytree(at_least_float32(x))[0])(position_of(states))
        moments = optax.tree.where(in_window, _pool(moments, rows), moments)
        variance, average = _variance(moments), jnp.exp(averaging.log_average)
        afresh = zeros, dual_averaging_init(average), average, variance
        adapted = optax.tree.where(ends_window, afresh, (moments, averaging, first, inverse_mass))
        return (states, *adapted), (used, acceptance)

    zeros = jnp.float32(0), 0 * unit, 0 * unit
    states, first = start_chains(key, sampler, positions), jnp.float32(step_size)
    (states, _, averaging, _, inverse_mass), (used, acceptance) = trace_chain(
        (jax.random.split(key, num_steps), *_schedule(num_steps, adapts_metric)),
        (states, zeros, averaging, first, unit),
        advance,
        lambda _, info: info,
    )
    frozen, metric = jnp.exp(averaging.log_average), unravel(inverse_mass)
    # A wall: new states at the positions, which remember nothing of the warm-up.
    states = start_chains(start_key(key), make_sampler(frozen, metric), position_of(states))
    return WarmUp(states, frozen, metric, used, acceptance)


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


def _schedule(num_steps: int, adapts_metric: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns whether each step is in one of Stan's windows, and whether it is its last."""
    in_window, is_last = np.zeros((2, num_steps), bool)
    if not adapts_metric or num_steps < 20:
        return in_window, is_last
    begin, window, last = FIRST, WINDOW, LAST
    if begin + window + last > num_steps:
        begin, last = int(0.15 * num_steps), int(0.1 * num_steps)
        window = num_steps - begin - last
    stop = num_steps - last
    in_window[begin:stop] = True
    while begin < stop:
        # A window that would leave too few steps for the next one, twice as long, takes them all.
        begin = begin + window if 3 * window <= stop - begin else stop
        is_last[begin - 1] = True
        window *= 2
    return in_window, is_last


def _pool(moments: Any, rows: jax.Array) -> Any:
    """Returns number, mean and squares about it of the draws of a window with ``rows`` added."""
    (count, mean, squares), num_new = moments, len(rows)
    shift, share = jnp.mean(rows, axis=0) - mean, num_new / (count + num_new)
    between = count * share * shift**2
    squares = squares + num_new * jnp.var(rows, axis=0) + between
    return count + num_new, mean + share * shift, squares


def _variance(moments: Any) -> jax.Array:
    """Returns the variance of a window, drawn to a small number where draws are few."""
    count, _, squares = moments
    share = count / (count + PSEUDO_DRAWS)
    return share * squares / jnp.maximum(count - 1, 1) + (1 - share) * PSEUDO_VARIANCE
