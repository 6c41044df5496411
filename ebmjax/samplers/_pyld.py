"""PYLD: Langevin steps that differentiate the first layer only, between two full gradients."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import place_carry, place_like
from ebmjax._checks import (
    check_at_least,
    check_box,
    check_broadcasts,
    check_floating,
    check_not_negative,
    check_positive,
    per_leaf,
)
from ebmjax._ranges import COUNT, NOT_NEGATIVE, POSITIVE, optional
from ebmjax.samplers._bound import bound
from ebmjax.samplers._chains import trace_chain
from ebmjax.samplers._langevin import (
    LogDensityInfo,
)
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn, PyTree


class PYLDState(NamedTuple):
    """A position with its full gradient at the first layer's output.

    Attributes:
      position, log_density: as in ``LangevinState``.
      cotangent: gradient of ``head_fn`` at the first layer's output, shaped like that.
    """

    position: PyTree
    log_density: jax.Array
    cotangent: PyTree


def pyld_init(
    position: PyTree, first_layer_fn: Callable[[PyTree], PyTree], head_fn: LogDensityFn
) -> PYLDState:
    """Evaluates the head and its gradient at ``first_layer_fn(position)``, for one chain."""
    check_floating("position", position)
    position = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), position)
    hidden = first_layer_fn(position)
    check_floating("first_layer_fn(position)", hidden)
    shapes = jax.tree.map(lambda leaf: leaf.shape, jax.eval_shape(head_fn, hidden))
    if shapes != ():
        raise ValueError(
            f"head_fn must return a scalar for the first layer of one position, got shape {shapes}."
        )
    log_density, cotangent = jax.value_and_grad(head_fn)(hidden)
    return PYLDState(position, log_density, cotangent)


def pyld_step(
    key: Key,
    state: PYLDState,
    first_layer_fn: Callable[[PyTree], PyTree],
    head_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    num_inner: Annotated[int, COUNT],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    max_score: Annotated[Any, optional(POSITIVE)] = None,
    outer_step_size: Annotated[Any, NOT_NEGATIVE] = 0.0,
    low: Any = -jnp.inf,
    high: Any = jnp.inf,
) -> tuple[PYLDState, LogDensityInfo]:
    r"""Makes ``num_inner`` Langevin moves at the price of one gradient of the network.

    The log density is :math:`f(x) = h(g(x))` with first layer g and head h. The cotangent :math:`p
    = \nabla h(g(x_0))` is taken once, at the start. Each inner move differentiates only the first
    layer, at the moving :math:`x_i`:

    .. math::
        x_{i+1} = \Pi\big(x_i + \epsilon\, \mathrm{clip}(J_g(x_i)^\top p, \pm c)
                  + \sigma\, \xi_i\big)

    where :math:`\Pi` projects onto the box. The first move is along the exact score, so
    ``num_inner=1`` is SGLD (proximal, with ``max_score``). Later moves are approximate, and the
    chain has no exact law. If the first layer is linear, all moves have the same score.

    ``schedule`` wraps ``functools.partial(pyld, first_layer_fn)``. ``clamp``, ``reflect`` and
    ``clip_drift`` would act on the hidden layer: box and clip are arguments here.

    Args:
      first_layer_fn: position to hidden, such as a network's first convolution.
      head_fn: hidden to scalar; differentiated once a step, at the new position.
      step_size: drift coefficient :math:`\epsilon` of each inner move (positive). Step size, noise,
        bound and outer step may each be a PyTree with the structure of the position.
      num_inner: N, the number of inner moves (static, at least 1).
      noise_scale: standard deviation :math:`\sigma` of each inner move's noise, in units of the
        position; None for the exact Langevin value ``sqrt(2 step_size)``.
      max_score: c, the elementwise bound on the inner moves' scores; None for no bound.
      outer_step_size: step size of an extra move along the exact score before the inner ones,
        neither clipped nor projected; 0 for none. YOPO has no such move; JEM++'s public code makes
        one of size 1.0 by default.
      low, high: ends of the box, into which every inner move is projected.

    Source: JEM++ (Yang & Ji 2021), after YOPO (Zhang et al. 2019). Its PYLD-M-N is M of these steps
    with noise 0, step size 0.2, N = 5, scores clipped at 1 and the box [-1, 1].
    """
    check_state(state, *PYLDState._fields)
    check_at_least("num_inner", num_inner, 1)
    for check, name, value in (
        (check_positive, "step_size", step_size),
        (check_positive, "max_score", max_score),
        (check_not_negative, "noise_scale", noise_scale),
        (check_not_negative, "outer_step_size", outer_step_size),
    ):
        if value is not None:
            check(name, value)
            check_broadcasts(name, value, state.position)
    check_box(low, high, state.position)
    like = state.position
    steps, outer_steps = per_leaf(step_size, like), per_leaf(outer_step_size, like)
    bounds = per_leaf(jnp.inf if max_score is None else max_score, like)
    if noise_scale is None:
        noise_scales = jax.tree.map(lambda step: jnp.sqrt(2.0 * step), steps)
    else:
        noise_scales = per_leaf(noise_scale, like)

    def frozen_score(position: PyTree) -> PyTree:
        hidden, pull_back = jax.vjp(first_layer_fn, position)
        return pull_back(place_like(state.cotangent, hidden))[0]

    def inner_move(key: Key, position: PyTree) -> tuple[PyTree, None]:
        noise = optax.tree.random_like(key, position)
        score = frozen_score(position)

        def move(x: Any, step: Any, s: Any, bound: Any, scale: Any, n: Any) -> jax.Array:
            # -1.0 * bound: a bound of unsigned integers has no negative.
            drift = step * jnp.clip(s, -1.0 * bound, bound)
            moved = (x + drift + scale * n).astype(x.dtype)
            return jnp.clip(moved, low, high).astype(x.dtype)

        return jax.tree.map(move, position, steps, score, bounds, noise_scales, noise), None

    def outer_move(x: jax.Array, step: Any, score: jax.Array) -> jax.Array:
        # 0 times an infinite score, which max_score bounds afterwards, would be NaN.
        is_lost = jnp.equal(step, 0) & ~jnp.isfinite(score)
        return (x + step * jnp.where(is_lost, 0, score)).astype(x.dtype)

    position = jax.tree.map(outer_move, like, outer_steps, frozen_score(like))
    keys = jax.random.split(key, num_inner)
    position, _ = place_carry(inner_move, keys, position)
    position, _ = trace_chain(keys, position, inner_move)
    state = pyld_init(position, first_layer_fn, head_fn)
    return state, LogDensityInfo(state.log_density)


pyld = bound(pyld_init, pyld_step)
