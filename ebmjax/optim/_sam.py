"""Sharpness-aware minimisation: the gradient at the worst parameters nearby."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import AxisName, mean_over_members
from ebmjax._checks import check_floating, check_positive
from ebmjax._precision import at_least_float32, root
from ebmjax.types import PyTree


def sam_gradients(
    loss_fn: Callable[[PyTree], tuple[jax.Array, PyTree]],
    params: PyTree,
    *,
    rho: float | jax.Array,
    adaptive: bool = False,
    second_loss_fn: Callable[[PyTree], tuple[jax.Array, PyTree]] | None = None,
    axis_name: AxisName = None,
) -> tuple[tuple[jax.Array, PyTree], PyTree]:
    r"""Returns the gradient of a loss at the nearby parameters where the loss is highest.

    .. math::
        \nabla L(\theta + \epsilon), \qquad
        \epsilon_\text{SAM} = \rho \frac{g}{\lVert g \rVert}, \qquad
        \epsilon_\text{ASAM} = \rho \frac{T^2 g}{\lVert T g \rVert}, \quad T = |\theta|

    with :math:`g = \nabla L(\theta)` and one Euclidean norm over all parameters. SAM's ball has
    radius rho in the units of the parameters. ASAM's is relative to each parameter's size, so
    scaling one layer up and the next one down does not change it. Under ASAM a parameter of exactly
    zero stays zero: the paper's constant :math:`\eta`, added to T, is 0 here as in SADA-JEM. A zero
    gradient gives zero, a gradient that is not finite one that is not finite.

    Both passes see the same batch and negatives if ``loss_fn`` closes over them, so draw negatives
    before the call. Put running statistics into the metrics, which come from the first pass alone:
    they are then updated once.

    Args:
      loss_fn: ``params -> (loss, metrics)``, ``metrics`` any PyTree.
      params: any PyTree of floating-point arrays.
      rho: positive scalar, the radius; may be traced.
      adaptive: ASAM instead of SAM.
      second_loss_fn: the loss of the second pass if it differs, for example in its normalisation
        statistics; None for ``loss_fn``.
      axis_name: mapped axis, or axes, of data-parallel shards. The displacement then uses the
        gradient averaged over them, the same on every shard. Without it, each shard climbs its own
        loss. In both cases average the returned gradients as usual: they are the shard's own.

    Returns:
      ``((loss, metrics), gradients)``: the value of the first pass at ``params``, and the
      gradients of the second at the displaced ones, shaped like ``params``.

    Source: Foret et al. 2021 (SAM); Kwon et al. 2021 (ASAM); SADA-JEM, Eqs. 7 and 8.
    """
    check_positive("rho", rho, is_scalar=True)
    check_floating("params", params)

    def displace(gradients: PyTree) -> PyTree:
        gradients = mean_over_members(gradients, axis_name)
        return optax.apply_updates(params, _displacement(params, gradients, rho, adaptive))

    if second_loss_fn is not None:
        value, gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
        return value, jax.grad(second_loss_fn, has_aux=True)(displace(gradients))[0]

    def one_pass(gradients: PyTree, is_second: jax.Array) -> tuple[PyTree, Any]:
        place = jax.lax.cond(is_second, displace, lambda _: params, gradients)
        value, gradients = jax.value_and_grad(loss_fn, has_aux=True)(place)
        return gradients, value

    # A loop, so that the program holds the loss and its gradient once.
    passes = jnp.array([False, True])
    gradients, values = jax.lax.scan(one_pass, jax.tree.map(jnp.zeros_like, params), passes)
    return jax.tree.map(lambda leaf: leaf[0], values), gradients


def _displacement(params: PyTree, gradients: PyTree, rho: Any, adaptive: bool) -> PyTree:
    """Returns SAM's or ASAM's epsilon, in float32 or wider."""

    def weigh(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda p, leaf: jnp.abs(p) * leaf, params, tree) if adaptive else tree

    # Squares are at most 1, but their sum needs float32: float16 ends at 65504, bfloat16 stands
    # still at 256.
    params, gradients = at_least_float32((params, gradients))
    climb = weigh(gradients)
    # Divides by the largest entry first, because squares of small entries underflow.
    largest = _or_one(optax.tree.norm(climb, ord=jnp.inf))
    climb = jax.tree.map(lambda leaf: leaf / largest, climb)
    squared = optax.tree.norm(climb, squared=True)
    return weigh(optax.tree.scale(rho / _or_one(root(squared)), climb))


def _or_one(norm: jax.Array) -> jax.Array:
    """Returns the norm, or 1 in place of 0: zeros divided by it stay zeros."""
    return jnp.where(norm == 0, 1, norm)
