"""The last steps of chains as a function of the parameters, for losses that train the sampler."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import varying_with
from ebmjax._checks import (
    check_at_least,
    check_box,
    check_broadcasts,
    check_floating,
    check_interval,
    check_not_negative,
    check_positive,
    leading_size,
    per_leaf,
)
from ebmjax.samplers import trace_chain
from ebmjax.types import Key, PyTree


def run_live_chains(
    key: Key,
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    starts: PyTree,
    labels: jax.Array,
    *,
    step_size: Any,
    noise_scale: Any,
    num_steps: int = 1,
    low: Any = -jnp.inf,
    high: Any = jnp.inf,
) -> PyTree:
    r"""Moves every start by Langevin steps that are differentiable in what ``density`` closes over.

    .. math::
        x \leftarrow \mathrm{clip}(x + \epsilon\, \nabla_x f_\theta(x) + \sigma \xi,
            \mathrm{low}, \mathrm{high})

    The starts are constants; the ends depend on the parameters :math:`\theta` through the scores
    of these steps, all of them. Where a coordinate is clipped its derivative is 0, unlike
    ``ebmjax.samplers.clamp``, which passes a chain's gradient straight through.

    Run the chain up to its last steps with ``run_chains``, outside of what is differentiated; take
    the last ones here, inside. A step costs one gradient, and backwards a derivative of it.

    Args:
      key: consumed by the noise; the same key gives the same noise at other parameters.
      density: ``density(label) -> log_density_fn`` of one chain, as for ``run_chains``.
      starts: leading axis of chains, floating point.
      labels: (chains,) integers, handed to ``density``.
      step_size: :math:`\epsilon`, positive; a scalar, or an array or PyTree as in ``sgld_step``.
      noise_scale: :math:`\sigma`, at least 0; the exact Langevin value is sqrt(2 step_size).
      num_steps: at least 1 (static).
      low, high: ends of the box that every step ends in; infinite for none.

    Returns:
      Ends, like ``starts``.

    Source: Du et al. 2021, section 3.2; one step in their code.

    Example:
      >>> def end(precision):
      ...     density = lambda label: lambda x: -0.5 * precision * x**2
      ...     starts, labels = jnp.array([3.0]), jnp.zeros(1, jnp.int32)
      ...     return run_live_chains(
      ...         jax.random.key(0), density, starts, labels, step_size=0.5, noise_scale=0.0)[0]
      >>> float(end(1.0)), float(jax.grad(end)(1.0))
      (1.5, -1.5)
    """
    check_floating("starts", starts)
    check_positive("step_size", step_size)
    check_not_negative("noise_scale", noise_scale)
    check_at_least("num_steps", num_steps, 1)
    check_interval(low, high)
    num_chains = leading_size("starts", starts)

    def step_one(key: Key, position: PyTree, label: jax.Array) -> PyTree:
        check_box(low, high, position)
        check_broadcasts("step_size", step_size, position)
        check_broadcasts("noise_scale", noise_scale, position)
        score = jax.grad(density(label))(position)
        noise = optax.tree.random_like(key, position, jax.random.normal)

        def move(x: jax.Array, step: Any, s: jax.Array, scale: Any, n: jax.Array) -> jax.Array:
            return jnp.clip(x + step * s + scale * n, low, high).astype(x.dtype)

        steps, scales = per_leaf(step_size, position), per_leaf(noise_scale, position)
        return jax.tree.map(move, position, steps, score, scales, noise)

    def step_all(key: Key, positions: PyTree) -> tuple[PyTree, None]:
        return jax.vmap(step_one)(jax.random.split(key, num_chains), positions, labels), None

    keys = jax.random.split(key, num_steps)
    starts = varying_with(jax.lax.stop_gradient(starts), key, labels)
    return trace_chain(keys, starts, step_all)[0]
