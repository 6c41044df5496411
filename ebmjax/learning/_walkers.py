"""Walkers with weights, which follow an energy in training and carry its log Z along."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ebmjax._axes import AxisName, first_key, gather_rows, own_rows, varying_with
from ebmjax._checks import check_at_least, check_fraction, check_positive, leading_size
from ebmjax.evidence import weight_sample_size
from ebmjax.samplers import StartFn, check_start_fn, fold_into_box, trace_chain
from ebmjax.types import Key, LogDensityFn, Metrics, PyTree


class Walkers(NamedTuple):
    """Walkers between two steps of training.

    Attributes:
      positions: PyTree whose leaves share a leading axis of walkers.
      reverse: like ``positions``: the displacement that undoes the last move.
      log_weights: (walkers,), nats; the next energy completes them.
      step_size: scalar h of the last move; 0 before the first.
      log_normalizer: scalar, what resampling has taken from the log weights.
    """

    positions: PyTree
    reverse: PyTree
    log_weights: jax.Array
    step_size: jax.Array
    log_normalizer: jax.Array


class WeightedSamples(NamedTuple):
    """Samples of an energy, with their weights.

    Attributes:
      positions: PyTree whose leaves share a leading axis of samples.
      weights: (samples,), their sum 1 in the mean over the shards.
    """

    positions: PyTree
    weights: jax.Array


def init_walkers(
    key: Key, num: int, start_fn: StartFn, log_start_density_fn: LogDensityFn
) -> Walkers:
    """Returns walkers of equal weight under their start distribution.

    Args:
      key: split into one for each walker.
      num: walkers, at least 2.
      start_fn: draws a start; its label is 0.
      log_start_density_fn: normalised log density of a start, a scalar, nats.
    """
    check_at_least("num", num, 2)
    check_start_fn(start_fn)
    positions = jax.vmap(start_fn, (0, None))(jax.random.split(key, num), jnp.int32(0))
    log_weights = -jax.vmap(log_start_density_fn)(positions)
    zero = jnp.zeros((), log_weights.dtype)
    return Walkers(positions, jax.tree.map(jnp.zeros_like, positions), log_weights, zero, zero)


def advance_walkers(
    key: Key,
    walkers: Walkers,
    energy_fn: Callable[[PyTree], jax.Array],
    *,
    step_size: Any,
    num_moves: int = 1,
    min_fraction: float = 0.5,
    box: tuple[Any, Any] | None = None,
    axis_name: AxisName = None,
) -> tuple[Walkers, WeightedSamples, Metrics]:
    r"""Completes the weights by the energy of this step, then moves the walkers.

    With :math:`U_k` the energy of step k, :math:`X'` a Langevin step from :math:`X` under
    :math:`U_k`, drift h and noise :math:`\sqrt{2h}`, a walker's log weight A changes by

    .. math::
        A \leftarrow A + a_k(X, X') - a_{k+1}(X', X), \qquad
        a_k(x, y) = U_k(x) + \tfrac12 (y - x) \cdot \nabla U_k(x) + \tfrac h4 |\nabla U_k(x)|^2

    Weights exp(A) make the mean over walkers that of the density :math:`e^{-U_{k+1}} / Z`, however
    fast the energy changes and however large h is, up to the error of finitely many walkers. Their
    mean is :math:`Z_{k+1}`. Where the effective number of walkers falls below ``min_fraction``,
    they are resampled systematically and the log of the mean weight is banked.

    Args:
      key: consumed.
      walkers: from ``init_walkers`` or an earlier step.
      energy_fn: positions, with their leading axis, to energies (walkers,) of this step. It must be
        normalisable, on all of space or in the box.
      step_size: h, positive, in squared units of the positions per nat.
      num_moves: Langevin moves of every walker (static), one gradient each.
      min_fraction: of the walkers, in [0, 1].
      box: ends (low, high), at whose walls moves are reflected; None for all of space.
      axis_name: mapped axis, or axes, over which the walkers of all shards are one population:
        weights, log Z and resampling are then those of one shard with all the walkers. None for
        one population a shard, each with its own log Z.

    Returns:
      Walkers after their moves. The samples of this step's energy, before resampling and moves.
      Metrics: "log_normalizer", the estimate of log Z of this step's energy, nats, and
      "effective_sample_fraction", the effective share of the walkers.

    Source: Carbone et al. 2023, Algorithms 1 and 4; Kong, Liu & Wong 1994 for the effective number.
    """
    check_positive("step_size", step_size)
    check_at_least("num_moves", num_moves, 1)
    check_fraction("min_fraction", min_fraction)
    resample_key, move_key = jax.random.split(key)
    walkers = varying_with(walkers, key)
    walkers, slopes = _complete(walkers, energy_fn)
    num = leading_size("walkers.positions", walkers.positions)
    together = gather_rows(walkers.log_weights, axis_name)
    log_mean = logsumexp(together) - jnp.log(len(together))
    fraction = weight_sample_size(together) / len(together)
    samples = WeightedSamples(walkers.positions, jnp.exp(walkers.log_weights - log_mean) / num)
    metrics = {
        "log_normalizer": walkers.log_normalizer + log_mean,
        "effective_sample_fraction": fraction,
    }

    chosen = own_rows(
        systematic_indices(first_key(resample_key, axis_name), together), num, axis_name
    )
    is_poor = fraction < min_fraction

    def choose(leaf: jax.Array) -> jax.Array:
        return jnp.where(is_poor, gather_rows(leaf, axis_name)[chosen], leaf)

    positions, slopes = jax.tree.map(choose, (walkers.positions, slopes))
    walkers = walkers._replace(
        positions=positions,
        log_weights=jnp.where(is_poor, 0.0, walkers.log_weights),
        log_normalizer=walkers.log_normalizer + jnp.where(is_poor, log_mean, 0.0),
    )
    keys = jax.random.split(move_key, num_moves)
    walkers = _move(keys[0], walkers, slopes, step_size, box)

    def move_on(key: Key, walkers: Walkers) -> tuple[Walkers, None]:
        return _move(key, *_complete(walkers, energy_fn), step_size, box), None

    if num_moves > 1:
        walkers, _ = trace_chain(keys[1:], walkers, move_on)
    return walkers, samples, metrics


def systematic_indices(key: Key, log_weights: jax.Array) -> jax.Array:
    """Returns (n,) int32 indices, entry i as often as n times its share, rounded up or down.

    Args:
      key: consumed by the one uniform number that all indices share.
      log_weights: (n,), nats.

    Source: Carpenter, Clifford & Fearnhead 1999.

    Example:
      >>> systematic_indices(jax.random.key(0), jnp.log(jnp.array([0.5, 0.0, 0.25, 0.25]))).tolist()
      [0, 0, 2, 3]
    """
    num = len(log_weights)
    places = (jax.random.uniform(key) + jnp.arange(num)) / num
    totals = jnp.cumsum(jax.nn.softmax(log_weights))
    # Rounding may leave the last total below a place.
    return jnp.searchsorted(totals / totals[-1], places).clip(0, num - 1).astype(jnp.int32)


class _Slopes(NamedTuple):
    """Energies (walkers,), and their gradients, like the positions."""

    energies: jax.Array
    gradients: PyTree


def _complete(walkers: Walkers, energy_fn: Callable[[PyTree], jax.Array]) -> tuple[Walkers, Any]:
    """Takes a(X', X) of the last move from the log weights, by the energy at X'."""
    energies, pull_back = jax.vjp(energy_fn, walkers.positions)
    slopes = _Slopes(energies, pull_back(jnp.ones_like(energies))[0])
    done = walkers.log_weights - _half_work(slopes, walkers.reverse, walkers.step_size)
    return walkers._replace(log_weights=done), slopes


def _move(key: Key, walkers: Walkers, slopes: _Slopes, step_size: Any, box: Any) -> Walkers:
    """Moves every walker, and adds a(X, X') to its log weight."""
    leaves, structure = jax.tree.flatten(walkers.positions)
    found = []
    for one, x, gradient in zip(
        jax.random.split(key, len(leaves)), leaves, jax.tree.leaves(slopes.gradients), strict=True
    ):
        noise = jax.random.normal(one, x.shape, x.dtype)
        displacement = jnp.sqrt(2.0 * step_size) * noise - step_size * gradient
        end, slope = (
            (x + displacement, 1.0) if box is None else fold_into_box(x + displacement, *box)
        )
        # Behind a mirror the way back is mirrored, too.
        found.append((end, displacement, -slope * displacement))
    positions, steps, reverse = (
        jax.tree.unflatten(structure, list(part)) for part in zip(*found, strict=True)
    )
    return walkers._replace(
        positions=positions,
        reverse=reverse,
        log_weights=walkers.log_weights + _half_work(slopes, steps, step_size),
        step_size=jnp.asarray(step_size, walkers.step_size.dtype),
    )


def _half_work(slopes: _Slopes, displacement: PyTree, step_size: Any) -> jax.Array:
    """Returns a(x, x + displacement), (walkers,)."""
    along, square = (_dot(one, slopes.gradients) for one in (displacement, slopes.gradients))
    return slopes.energies + 0.5 * along + 0.25 * step_size * square


def _dot(a: PyTree, b: PyTree) -> jax.Array:
    """Returns the products (walkers,), summed over all but the leading axis."""
    products = jax.tree.map(lambda x, y: jnp.sum((x * y).reshape(len(x), -1), axis=1), a, b)
    return sum(jax.tree.leaves(products))  # pyright: ignore
