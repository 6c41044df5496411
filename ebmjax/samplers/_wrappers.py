"""Image habits, kept out of the samplers: clamping, clipping, schedules.

Each of ``clamp``, ``clip_drift`` and ``scheduled`` takes the bound form of a sampler and returns
one that is called the same way, so they compose::

    sampler = clamp(clip_drift(sgld, 1.0), -1.0, 1.0)(log_density_fn, step_size=1.0)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_interval, check_positive
from ebmjax.samplers._chains import position_of
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

MakeSampler = Callable[..., Sampler]
"""The bound form of a sampler: ``make(log_density_fn, *, step_size, ...) -> Sampler``."""


def clip_score(log_density_fn: LogDensityFn, max_abs: Any) -> LogDensityFn:
    """The same density, whose gradient is clipped elementwise to ``[-max_abs, max_abs]``.

    MALA with a clipped score still samples the density exactly: the proposal uses the clipped
    drift and so does its ratio.

    Raises:
      ValueError: if a concrete ``max_abs`` is not positive.
    """
    check_positive("max_abs", max_abs)

    @jax.custom_vjp
    def clip_gradient(position: PyTree) -> PyTree:
        return position

    def forward(position: PyTree) -> tuple[PyTree, None]:
        return position, None

    def backward(_: None, gradient: PyTree) -> tuple[PyTree]:
        return (jax.tree.map(lambda g: jnp.clip(g, -max_abs, max_abs).astype(g.dtype), gradient),)

    clip_gradient.defvjp(forward, backward)
    return lambda position: log_density_fn(clip_gradient(position))


def clip_drift(make: MakeSampler, max_drift: Any) -> MakeSampler:
    """Clips ``step_size * score`` elementwise to ``[-max_drift, max_drift]`` before it is added.

    With ``sgld`` this is the proximal SGLD of JEM++ and SADA-JEM.

    Raises:
      ValueError: if a concrete ``max_drift`` is not positive.
    """
    check_positive("max_drift", max_drift)

    def make_clipped(log_density_fn: LogDensityFn, *, step_size: Any, **others: Any) -> Sampler:
        check_positive("step_size", step_size)
        clipped = clip_score(log_density_fn, max_drift / step_size)
        return make(clipped, step_size=step_size, **others)

    return make_clipped


def clamp(make: MakeSampler, low: Any, high: Any) -> MakeSampler:
    """Projects every position onto the box ``[low, high]``, elementwise, after each step.

    The density is evaluated where the chain really stands, at the projected position, so that a
    state that carries its score stays true and a step still costs one gradient. A projected chain
    has no exact law. Under MALA a proposal outside is judged by the energy at the wall: where
    drifts point outwards hardly any is accepted (docs/results/igebm_digits.md). ``reflect`` and,
    for MALA, ``ebmjax.densities.within_box(log_density_fn, low, high)`` sample the truncated
    density.

    Raises:
      ValueError: unless ``low < high``.
    """
    check_interval(low, high)

    @jax.custom_jvp
    def project_leaf(x: jax.Array) -> jax.Array:
        return jnp.clip(x, low, high).astype(x.dtype)

    # The score at the projected position is wanted whole: clip's own derivative is 0 outside.
    project_leaf.defjvp(lambda primals, tangents: (project_leaf(*primals), tangents[0]))

    def project(position: PyTree) -> PyTree:
        return jax.tree.map(project_leaf, position)

    def make_clamped(log_density_fn: LogDensityFn, **hyperparameters: Any) -> Sampler:
        inner = make(lambda position: log_density_fn(project(position)), **hyperparameters)

        def init(position: PyTree, key: Key | None = None) -> Any:
            return inner.init(project(jax.tree.map(jnp.asarray, position)), key)

        def step(key: Key, state: Any) -> tuple[Any, Any]:
            state, info = inner.step(key, state)
            return replace_position(state, project(position_of(state))), info

        return Sampler(init, step)

    return make_clamped


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
        """Where the chain stands (the particles, for a particle sampler)."""
        return position_of(self.inner)


def scheduled(make: MakeSampler) -> MakeSampler:
    """Lets any hyperparameter be a function of the step within the chain.

    A callable hyperparameter, such as an optax schedule, is evaluated at 0, 1, 2, ... as the chain
    runs; numbers stay as they are. Annealed Langevin dynamics is
    ``scheduled(sgld)(log_density_fn, step_size=optax.linear_schedule(1e-2, 1e-4, 100))``.

    Source: sampling-approaches thesis, section 3.4.
    """

    def make_scheduled(log_density_fn: LogDensityFn, **hyperparameters: Any) -> Sampler:
        def at(step: Any) -> Sampler:
            values = {k: v(step) if callable(v) else v for k, v in hyperparameters.items()}
            return make(log_density_fn, **values)

        def init(position: PyTree, key: Key | None = None) -> ScheduledState:
            return ScheduledState(at(0).init(position, key), jnp.zeros((), jnp.int32))

        def step(key: Key, state: ScheduledState) -> tuple[ScheduledState, Any]:
            inner, info = at(state.step).step(key, state.inner)
            return ScheduledState(inner, state.step + 1), info

        return Sampler(init, step)

    return make_scheduled


def replace_position(state: Any, position: PyTree) -> Any:
    """``state`` with its chain moved to ``position``, nothing else recomputed."""
    if isinstance(state, ScheduledState):
        return state._replace(inner=replace_position(state.inner, position))
    name = "particles" if hasattr(state, "particles") else "position"
    return state._replace(**{name: position})
