"""Gradient descent on the energy: the sampler without noise, and without a law to sample."""

from typing import Annotated, Any

import jax

from ebmjax._checks import check_broadcasts, check_positive, per_leaf
from ebmjax._ranges import POSITIVE
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import LangevinState, LogDensityInfo, langevin_init
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn

gradient_descent_init = langevin_init


def gradient_descent_step(
    key: Key,
    state: LangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
) -> tuple[LangevinState, LogDensityInfo]:
    r"""Takes one step downhill in energy, uphill in log density.

    .. math:: x' = x + \epsilon\, s(x)

    Args:
      step_size: :math:`\epsilon`, positive, in the forms of ``sgld_step``.

    Source: sampling-approaches thesis, Alg. 3.
    """
    del key
    check_state(state, *LangevinState._fields)
    check_positive("step_size", step_size)
    check_broadcasts("step_size", step_size, state.position)
    position = jax.tree.map(
        lambda x, step, s: (x + step * s).astype(x.dtype),
        state.position,
        per_leaf(step_size, state.position),
        state.score,
    )
    state = langevin_init(position, log_density_fn)
    return state, LogDensityInfo(state.log_density)


gradient_descent = bound(gradient_descent_init, gradient_descent_step)
