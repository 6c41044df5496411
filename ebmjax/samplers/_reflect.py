"""A box whose walls are mirrors, so that samplers inside keep their law."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_box, check_finite, check_interval
from ebmjax.samplers._states import map_state
from ebmjax.samplers._wrappers import MakeSampler, with_slope
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


def reflect(make: MakeSampler, low: Any, high: Any) -> MakeSampler:
    """Folds every position into the box ``[low, high]`` by reflection at its walls, elementwise.

    The sampler moves on the density continued by reflection beyond the walls. MALA and HMC then
    sample the density restricted to the box exactly; Langevin chains without rejection do so as
    their step goes to 0. Nothing piles up on the walls (as under ``clamp``), and no move is lost
    there (as under ``ebmjax.densities.within_box``). A step still costs one gradient.

    Use it for samplers of one chain whose moves treat every coordinate for itself, such as HMC with
    a diagonal mass matrix. Particles are folded too, but their kernel ignores that. A metric that
    depends on the position, or a prior beside the density, must be mirrored by its author. Scores,
    velocities and momenta that a state carries change sign with their coordinate; a state with
    another field of that size is refused.
    """
    check_interval(low, high)
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
    """Returns the place in the box to which ``x`` folds by reflection, and the slope: -1 or 1.

    Args:
      x: positions.
      low, high: ends of the box, which broadcast to ``x``.
    """
    width = jnp.asarray(high, x.dtype) - jnp.asarray(low, x.dtype)
    offset = jnp.mod(x - low, 2.0 * width)
    is_inside = (x >= low) & (x <= high)
    folded = jnp.clip(low + jnp.minimum(offset, 2.0 * width - offset), low, high)
    sign = jnp.where(is_inside | (offset <= width), 1.0, -1.0)
    return jnp.where(is_inside, x, folded).astype(x.dtype), sign.astype(x.dtype)


_fold = with_slope(lambda *box: fold_into_box(*box)[0], lambda *box: fold_into_box(*box)[1])
