"""Parameters averaged over training, inside the optimiser's state."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._checks import check_floating, check_fraction
from ebmjax.types import PyTree


class ParameterAverage(NamedTuple):
    """Holds ``parameter_average``, shaped like the parameters, in float32 or wider."""

    parameter_average: PyTree


def average_parameters(decay: float) -> optax.GradientTransformation:
    r"""Keeps :math:`\bar\theta \leftarrow d\, \bar\theta + (1 - d)\, \theta` from the start on.

    Put it last in an ``optax.chain``: it keeps updates as they are and averages the parameters that
    they lead to. A skipped or held step does not count. The average is float32 or wider, so that a
    step of ``1 - decay`` is not rounded away.

    Args:
      decay: d in [0, 1]; 0 for the newest parameters.

    Raises:
      ValueError: if ``decay`` is out of range, or ``update`` gets no parameters.

    Source: Du et al. 2021 sample from such an average, d = 0.99 in their code.

    Example:
      >>> optimizer = optax.chain(optax.sgd(1.0), average_parameters(0.5))
      >>> params = jnp.array([4.0])
      >>> updates, state = optimizer.update(jnp.array([2.0]), optimizer.init(params), params)
      >>> averaged_parameters(state).tolist()
      [3.0]
    """
    check_fraction("decay", decay)

    def init(params: PyTree) -> ParameterAverage:
        check_floating("params", params)
        # Copies, because a buffer cannot be donated twice.
        return ParameterAverage(_widen_params(params))

    def update(
        updates: PyTree, state: Any, params: PyTree = None
    ) -> tuple[PyTree, ParameterAverage]:
        if params is None:
            raise ValueError("average_parameters averages parameters: give update() the params.")
        new = _widen_params(optax.apply_updates(params, updates))
        average = optax.incremental_update(new, state.parameter_average, 1.0 - decay)
        return updates, ParameterAverage(average)

    return optax.GradientTransformation(init, update)


def _widen_params(params: PyTree) -> PyTree:
    return jax.tree.map(lambda p: jnp.array(p, jnp.promote_types(p.dtype, jnp.float32)), params)


def averaged_parameters(opt_state: Any) -> PyTree:
    """Returns the average of ``average_parameters``, found anywhere in an optimiser's state.

    Raises:
      KeyError: if there is none, or several.
    """
    return optax.tree.get(opt_state, "parameter_average")
