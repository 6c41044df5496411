"""Wrappers of samplers: clamping, reflection, clipping, schedules.

They take the bound form of a sampler and return one that is called in the same way, so they
compose: ``clamp(clip_drift(sgld, 1.0), -1.0, 1.0)(log_density_fn, step_size=1.0)``. All but
``schedule`` refuse a state without a position, or with an array whose kind it does not name.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import (
    check_box,
    check_broadcasts,
    check_finite,
    check_positive,
    per_leaf,
)
from ebmjax.samplers._states import map_state, position_of
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


def clip_score(log_density_fn: LogDensityFn, max_abs: Any) -> LogDensityFn:
    """Returns the same density with its gradient clipped elementwise to ``[-max_abs, max_abs]``.

    MALA with a clipped score still samples the density exactly, because its ratio uses the clipped
    drift too.
    """
    check_positive("max_abs", max_abs)
    bound = jax.tree.map(lambda c: jnp.asarray(c, jnp.result_type(float)), max_abs)

    def clipped(position: PyTree) -> jax.Array:
        check_broadcasts("max_abs", bound, position)
        return log_density_fn(_clip_gradient(position, bound))

    return clipped


def _clip(max_abs: Any, gradient: PyTree) -> PyTree:
    return jax.tree.map(
        lambda g, c: jnp.clip(g, -c, c).astype(g.dtype), gradient, per_leaf(max_abs, gradient)
    )


@jax.custom_vjp
def _clip_gradient(position: PyTree, max_abs: PyTree) -> PyTree:
    """Returns ``position``. ``max_abs`` is an argument because it may be traced."""
    del max_abs
    return position


def _clip_forward(position: PyTree, max_abs: PyTree) -> tuple[PyTree, PyTree]:
    return position, max_abs


def _clip_backward(max_abs: PyTree, gradient: PyTree) -> tuple[PyTree, PyTree]:
    return _clip(max_abs, gradient), jax.tree.map(jnp.zeros_like, max_abs)


_clip_gradient.defvjp(_clip_forward, _clip_backward)


def _quotient(left: PyTree, right: PyTree) -> PyTree:
    """Returns ``left / right``; leaf by leaf if one is a PyTree."""
    is_leaf = jax.tree_util.treedef_is_leaf(jax.tree.structure(right))
    like = left if is_leaf else right
    return jax.tree.map(lambda a, b: a / b, per_leaf(left, like), per_leaf(right, like))


def clip_drift(make: Callable[..., Sampler], max_drift: Any) -> Callable[..., Sampler]:
    """Clips ``step_size * score`` elementwise to ``[-max_drift, max_drift]`` before it is added.

    With ``sgld`` this is the proximal SGLD of JEM++ and SADA-JEM.

    Under ``schedule``, too, no move exceeds ``max_drift``. If the step size has fallen since the
    last step, that step of MALA is not quite exact.
    """
    check_positive("max_drift", max_drift)

    def make_clipped(log_density_fn: LogDensityFn, *, step_size: Any, **others: Any) -> Sampler:
        check_positive("step_size", step_size)
        bound = _quotient(max_drift, step_size)
        clipped = clip_score(log_density_fn, bound)

        def checked(position: PyTree) -> jax.Array:
            check_broadcasts("max_drift", max_drift, position)
            return clipped(position)

        inner = make(checked, step_size=step_size, **others)

        def init(position: PyTree, key: Key | None = None) -> Any:
            return map_state(inner.init(position, key))

        def step(key: Key, state: Any) -> tuple[Any, Any]:
            # The score it carries may have been clipped for another step size.
            return inner.step(key, map_state(state, gradient=lambda _, score: _clip(bound, score)))

        return Sampler(init, step)

    return make_clipped


def clamp(make: Callable[..., Sampler], low: Any, high: Any) -> Callable[..., Sampler]:
    """Projects every position onto the box ``[low, high]``, elementwise, after each step.

    The density is evaluated at the projected position, so the state's score stays true and a step
    costs one gradient. A projected chain has no exact law; ``reflect`` and, for MALA,
    ``ebmjax.densities.within_box`` sample the truncated density. MALA judges a proposal outside by
    the energy at the wall: where drifts point outwards, hardly any is accepted
    (docs/results/igebm_digits.md). A velocity that points out of the box at a wall is turned back.
    """
    check_box(low, high)

    def ends(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(low, x.dtype), jnp.asarray(high, x.dtype)

    def project(position: PyTree) -> PyTree:
        check_box(low, high, position)
        return jax.tree.map(lambda x: jnp.clip(x, *ends(x)), position)

    def projected(position: PyTree) -> PyTree:
        check_box(low, high, position)
        return jax.tree.map(lambda x: _project(x, *ends(x)), position)

    def turned_back(position: PyTree, velocity: PyTree) -> PyTree:
        def inwards(x: jax.Array, v: jax.Array) -> jax.Array:
            first, last = ends(x)
            return jnp.where((x <= first) & (v < 0) | (x >= last) & (v > 0), -v, v)

        return jax.tree.map(inwards, position, velocity)

    def make_clamped(log_density_fn: LogDensityFn, **hyperparameters: Any) -> Sampler:
        inner = make(lambda position: log_density_fn(projected(position)), **hyperparameters)

        def init(position: PyTree, key: Key | None = None) -> Any:
            state = inner.init(project(jax.tree.map(jnp.asarray, position)), key)
            return map_state(state, velocity=turned_back)

        def step(key: Key, state: Any) -> tuple[Any, Any]:
            state, info = inner.step(key, state)
            return map_state(state, position=project, velocity=turned_back), info

        return Sampler(init, step)

    return make_clamped


def with_slope(place: Callable[..., jax.Array], slope: Callable[..., Any]) -> Any:
    """Returns ``place(x, low, high)``, whose derivative by x is ``slope(x, low, high)``."""
    function = jax.custom_jvp(place)

    @function.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        x, *ends = primals
        found, by_ends = jax.jvp(partial(place, x), tuple(ends), tuple(tangents[1:]))
        return found, slope(*primals) * tangents[0] + by_ends

    return function


# Clips with slope 1 outside, too, so that the score stays whole.
_project = with_slope(jnp.clip, lambda *_: 1.0)


def reflect(make: Callable[..., Sampler], low: Any, high: Any) -> Callable[..., Sampler]:
    """Folds every position into the box ``[low, high]`` by reflection at its walls, elementwise.

    The sampler moves on the density continued by reflection beyond the walls. MALA and HMC then
    sample the density restricted to the box exactly; Langevin chains without rejection do so as
    their step goes to 0. Nothing piles up on the walls (as under ``clamp``), and no move is lost
    there (as under ``ebmjax.densities.within_box``). A step still costs one gradient.

    Use it for samplers of one chain whose moves treat every coordinate for itself. Particles are
    folded too, but their kernel ignores that. Scores and velocities that a state carries change
    sign with their coordinate.
    """
    check_box(low, high)
    check_finite("low", low)
    check_finite("high", high)

    def fold(position: PyTree) -> PyTree:
        check_box(low, high, position)
        return jax.tree.map(lambda x: _fold(x, low, high), position)

    def mirrored(position: PyTree, vector: PyTree) -> PyTree:
        return jax.tree.map(
            lambda x, v: fold_into_box(x, low, high)[1].astype(v.dtype) * v, position, vector
        )

    def make_reflected(log_density_fn: LogDensityFn, **hyperparameters: Any) -> Sampler:
        inner = make(lambda position: log_density_fn(fold(position)), **hyperparameters)

        def init(position: PyTree, key: Key | None = None) -> Any:
            return map_state(inner.init(fold(jax.tree.map(jnp.asarray, position)), key))

        def step(key: Key, state: Any) -> tuple[Any, Any]:
            state, info = inner.step(key, state)
            return map_state(state, position=fold, gradient=mirrored, velocity=mirrored), info

        return Sampler(init, step)

    return make_reflected


def fold_into_box(x: jax.Array, low: Any, high: Any) -> tuple[jax.Array, jax.Array]:
    """Returns the place in the box to which ``x`` folds by reflection, and the slope: -1 or 1."""
    width = jnp.asarray(high, x.dtype) - jnp.asarray(low, x.dtype)
    offset = jnp.mod(x - low, 2.0 * width)
    is_inside = (x >= low) & (x <= high)
    folded = jnp.clip(low + jnp.minimum(offset, 2.0 * width - offset), low, high)
    sign = jnp.where(is_inside | (offset <= width), 1.0, -1.0)
    return jnp.where(is_inside, x, folded).astype(x.dtype), sign.astype(x.dtype)


_fold = with_slope(lambda *box: fold_into_box(*box)[0], lambda *box: fold_into_box(*box)[1])


class ScheduledState(NamedTuple):
    """A sampler's state, and the number of steps it has taken, a scalar int32."""

    inner: Any
    step: jax.Array

    @property
    def position(self) -> PyTree:
        """Position of the chain (of a particle sampler: the particles)."""
        return position_of(self.inner)


def schedule(make: Callable[..., Sampler]) -> Callable[..., Sampler]:
    """Lets any hyperparameter be a function of the step within the chain.

    A callable hyperparameter, or leaf of one, is evaluated at steps 0, 1, 2, .... So
    ``step_size=optax.linear_schedule(1e-2, 1e-4, 100)`` makes annealed Langevin dynamics of sgld.

    Source: sampling-approaches thesis, section 3.4.
    """

    def make_scheduled(log_density_fn: LogDensityFn, **hyperparameters: Any) -> Sampler:
        def at(step: Any) -> Sampler:
            values = jax.tree.map(lambda v: v(step) if callable(v) else v, hyperparameters)
            return make(log_density_fn, **values)

        def init(position: PyTree, key: Key | None = None) -> ScheduledState:
            return ScheduledState(at(0).init(position, key), jnp.zeros((), jnp.int32))

        def step(key: Key, state: ScheduledState) -> tuple[ScheduledState, Any]:
            inner, info = at(state.step).step(key, state.inner)
            return ScheduledState(inner, state.step + 1), info

        return Sampler(init, step)

    return make_scheduled
