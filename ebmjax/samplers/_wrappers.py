"""Wrappers of samplers: clamping, clipping, schedules.

``clamp``, ``clip_drift`` and ``schedule`` take the bound form of a sampler and return one that is
called in the same way, so they compose::

    sampler = clamp(clip_drift(sgld, 1.0), -1.0, 1.0)(log_density_fn, step_size=1.0)

``clamp``, ``clip_drift`` and ``reflect`` refuse a state without a position, or with an array of
numbers whose kind it does not name.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_box, check_broadcasts, check_interval, check_positive, per_leaf
from ebmjax.samplers._states import map_state, position_of
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

MakeSampler = Callable[..., Sampler]
"""The bound form of a sampler: ``make(log_density_fn, *, step_size, ...) -> Sampler``."""


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


def clip_drift(make: MakeSampler, max_drift: Any) -> MakeSampler:
    """Clips ``step_size * score`` elementwise to ``[-max_drift, max_drift]`` before it is added.

    With ``sgld`` this is the proximal SGLD of JEM++ and SADA-JEM.

    Under ``schedule``, too, no move exceeds ``max_drift``. A state carries the score that the
    previous step clipped. If the step size has fallen since, a clipped entry moves by ``max_drift``
    times the new step size over the old, and that step of MALA is not quite exact.
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

        def clipped_at(position: PyTree, score: PyTree) -> PyTree:
            del position
            return _clip(bound, score)

        def init(position: PyTree, key: Key | None = None) -> Any:
            return map_state(inner.init(position, key))

        def step(key: Key, state: Any) -> tuple[Any, Any]:
            # The score it carries may have been clipped for another step size.
            return inner.step(key, map_state(state, gradient=clipped_at))

        return Sampler(init, step)

    return make_clipped


def clamp(make: MakeSampler, low: Any, high: Any) -> MakeSampler:
    """Projects every position onto the box ``[low, high]``, elementwise, after each step.

    The density is evaluated at the projected position, so the state's score stays true and a step
    costs one gradient. A projected chain has no exact law. MALA judges a proposal outside by the
    energy at the wall: where drifts point outwards, hardly any is accepted
    (docs/results/igebm_digits.md). ``reflect`` and, for MALA,
    ``ebmjax.densities.within_box(log_density_fn, low, high)`` sample the truncated density.
    A velocity or momentum that points out of the box at a wall is turned back, and keeps its size.
    """
    check_interval(low, high)

    def project(position: PyTree) -> PyTree:
        check_box(low, high, position)
        return jax.tree.map(lambda x: jnp.clip(x, *_ends(low, high, x)), position)

    def projected(position: PyTree) -> PyTree:
        check_box(low, high, position)
        return jax.tree.map(lambda x: _project(x, *_ends(low, high, x)), position)

    def turned_back(position: PyTree, velocity: PyTree) -> PyTree:
        def inwards(x: jax.Array, v: jax.Array) -> jax.Array:
            low_end, high_end = _ends(low, high, x)
            return jnp.where((x <= low_end) & (v < 0) | (x >= high_end) & (v > 0), -v, v)

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


def _ends(low: Any, high: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the ends of a box in the dtype of ``x``; either may be traced."""
    return jnp.asarray(low, x.dtype), jnp.asarray(high, x.dtype)


class ScheduledState(NamedTuple):
    """A sampler's state with the number of steps it has taken.

    Attributes:
      inner: the state of the scheduled sampler.
      step: scalar int32, zero at the start.
    """

    inner: Any
    step: jax.Array

    @property
    def position(self) -> PyTree:
        """Position of the chain (of a particle sampler: the particles)."""
        return position_of(self.inner)


def schedule(make: MakeSampler) -> MakeSampler:
    """Lets any hyperparameter be a function of the step within the chain.

    A callable hyperparameter, such as an optax schedule, is evaluated at steps 0, 1, 2, ...;
    numbers stay as they are. In a PyTree each leaf may be either. Annealed Langevin dynamics is
    ``schedule(sgld)(log_density_fn, step_size=optax.linear_schedule(1e-2, 1e-4, 100))``.

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
