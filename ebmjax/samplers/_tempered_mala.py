"""MALA that raises its temperature while too few of its moves are accepted."""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_fraction, check_positive
from ebmjax._precision import at_least_float32
from ebmjax._ranges import NOT_NEGATIVE, POSITIVE, PROBABILITY, optional
from ebmjax.samplers._bound import BoundForm, bound
from ebmjax.samplers._langevin import (
    LangevinState,
    check_langevin,
    langevin_init,
)
from ebmjax.samplers._mala import mala_step
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn, PyTree


class TemperedMALAState(NamedTuple):
    """A MALA state with the temperature it has reached.

    Attributes:
      position, log_density, score: as in ``LangevinState``, untempered.
      temperature: scalar T of the current target ``log_density / T``.
      running_acceptance: scalar in [0, 1], exponential average since the last rise; starts at 1.

    The last two are float32 or wider: in bfloat16 a slow average would stand still.
    """

    position: PyTree
    log_density: jax.Array
    score: PyTree
    temperature: jax.Array
    running_acceptance: jax.Array

    even = ("temperature", "running_acceptance")


class TemperedMALAInfo(NamedTuple):
    """A ``LangevinInfo``, untempered, with the temperature that this step ran at."""

    acceptance_prob: jax.Array
    is_accepted: jax.Array
    log_density: jax.Array
    temperature: jax.Array


def tempered_mala_init(
    position: PyTree, log_density_fn: LogDensityFn, *, temperature: Annotated[Any, POSITIVE] = 1.0
) -> TemperedMALAState:
    """Scores ``position`` and starts at ``temperature`` (positive)."""
    check_positive("temperature", temperature, is_scalar=True)
    scored = langevin_init(position, log_density_fn)
    # Made from the log density, so that under jax.shard_map they vary over the same axes.
    like = at_least_float32(scored.log_density)
    return TemperedMALAState(*scored, jnp.full_like(like, temperature), jnp.ones_like(like))


def tempered_mala_step(
    key: Key,
    state: TemperedMALAState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    acceptance_threshold: Annotated[Any, PROBABILITY] = 0.5,
    temperature_growth: Annotated[Any, POSITIVE] = 10.0,
    acceptance_decay: Annotated[Any, PROBABILITY] = 0.9,
) -> tuple[TemperedMALAState, TemperedMALAInfo]:
    r"""Takes one MALA step on :math:`E / T`, after which T may rise.

    .. math::
        y = x + \frac{\epsilon}{T} s(x) + \sigma \xi, \qquad
        A' = d A + (1 - d)\, \alpha, \qquad
        T' = \begin{cases} g\, T & A' < u \\ T & \text{otherwise} \end{cases}

    with exact noise :math:`\sigma = \sqrt{2 \epsilon}`. After a rise the running acceptance A
    restarts at 1, so that only moves at the new temperature count. While T rises, the chain has no
    stationary law; once T rests, the target is :math:`p^{1/T}`.

    Args:
      step_size: :math:`\epsilon`, positive; an array or a PyTree as in ``mala_step``.
      noise_scale: :math:`\sigma`; None for ``sqrt(2 step_size)``.
      acceptance_threshold: u in [0, 1].
      temperature_growth: g, positive.
      acceptance_decay: d in [0, 1]. At 0 every move is judged alone, as in the thesis's listing.
      temperature: of the bound form: T at the start, a positive scalar.

    Source: sampling-approaches thesis, Alg. 10. Its listing divides the energy again at every step,
    so that one rise compounds; here the target is always ``E / T``.
    """
    check_state(state, *TemperedMALAState._fields)
    temperature = state.temperature
    check_langevin(step_size, noise_scale, temperature, state.position)
    check_positive("temperature_growth", temperature_growth)
    check_fraction("acceptance_threshold", acceptance_threshold)
    check_fraction("acceptance_decay", acceptance_decay)
    if noise_scale is None:
        noise_scale = jax.tree.map(lambda step: jnp.sqrt(2.0 * step), step_size)
    scored, info = mala_step(
        key,
        LangevinState(state.position, state.log_density, state.score),
        log_density_fn,
        step_size=jax.tree.map(lambda step: step / temperature, step_size),
        noise_scale=noise_scale,
        temperature=temperature,
    )
    kept, fresh = acceptance_decay, 1.0 - acceptance_decay
    running_acceptance = kept * state.running_acceptance + fresh * info.acceptance_prob
    rises = running_acceptance < acceptance_threshold
    state = TemperedMALAState(
        *scored,
        jnp.where(rises, temperature_growth * temperature, temperature).astype(temperature.dtype),
        jnp.where(rises, 1.0, running_acceptance).astype(state.running_acceptance.dtype),
    )
    return state, TemperedMALAInfo(*info, temperature)


# Any options: ``temperature`` comes from the init.
tempered_mala: BoundForm[..., TemperedMALAState, TemperedMALAInfo] = bound(
    tempered_mala_init, tempered_mala_step, rejects=True
)
