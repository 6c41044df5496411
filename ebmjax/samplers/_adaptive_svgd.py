"""SVGD whose step adapts to every coordinate of every particle."""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import AxisName
from ebmjax._checks import check_fraction, check_positive
from ebmjax._precision import at_least_float32, root
from ebmjax._ranges import BANDWIDTH, POSITIVE, PROBABILITY, optional
from ebmjax.samplers._bound import bound
from ebmjax.samplers._states import check_state
from ebmjax.samplers._svgd import (
    SVGDInfo,
    flatten_particles,
    stein_info,
    stein_terms,
    svgd_init,
    unflatten_like,
)
from ebmjax.types import Key, LogDensityFn, PyTree


class AdaptiveSVGDState(NamedTuple):
    """The particles with the running second moment of their directions.

    Attributes:
      particles: any PyTree of floating-point arrays with a leading axis of n particles.
      second_moment: G, shaped like ``particles``, in float32 at least; zero at the start.
      step: scalar int32, the number of steps taken.
    """

    particles: PyTree
    second_moment: PyTree
    step: jax.Array

    even = ("second_moment",)


def adaptive_svgd_init(particles: PyTree, log_density_fn: LogDensityFn) -> AdaptiveSVGDState:
    """Wraps ``particles``: a PyTree of floating-point arrays with a shared leading axis."""
    particles = svgd_init(particles, log_density_fn).particles
    second_moment = optax.tree.zeros_like(at_least_float32(particles))
    return AdaptiveSVGDState(particles, second_moment, jnp.zeros((), jnp.int32))


def adaptive_svgd_step(
    key: Key,
    state: AdaptiveSVGDState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    decay: Annotated[Any, PROBABILITY] = 0.9,
    damping: Annotated[Any, POSITIVE] = 1e-6,
    bandwidth: Annotated[Any, optional(BANDWIDTH)] = None,
    axis_name: AxisName = None,
) -> tuple[AdaptiveSVGDState, SVGDInfo]:
    r"""Moves each coordinate by its direction divided by the direction's running size.

    .. math::
        x' = x + \epsilon\, \frac{\phi}{\delta + \sqrt{G}},
        \qquad G_1 = \phi_1^2, \qquad G_t = \alpha\, G_{t-1} + (1 - \alpha)\, \phi_t^2

    elementwise, with :math:`\phi` as in ``svgd_direction``. The rest points are SVGD's, but a
    constant step does not come to rest at them: a coordinate moves by about :math:`\epsilon` a
    step, however small its direction is.

    Args:
      step_size: :math:`\epsilon`, a positive scalar in units of the particles. It is a coordinate's
        first move; no step moves one by more than :math:`\epsilon / \sqrt{1 - \alpha}`.
      decay: :math:`\alpha`, in [0, 1]; at 0 only the direction's signs count.
      damping: :math:`\delta`, positive, in units of the direction. Coordinates whose direction is
        far below it take the plain step, :math:`\epsilon \phi / \delta`.
      bandwidth: h in units of the particles: a positive number, ``"median"``, or None for
        ``median / sqrt(2 log n)``.
      axis_name: as in ``svgd_direction``.

    Source: the published code of Liu & Wang 2016 ("AdaGrad with momentum", same defaults). The
    SVGD-in-JEM thesis, section 2.3, mentions adaptive steps without a formula.
    """
    del key
    check_state(state, "particles", "second_moment")
    check_positive("step_size", step_size, is_scalar=True)
    check_positive("damping", damping, is_scalar=True)
    check_fraction("decay", decay, is_scalar=True)
    terms = stein_terms(state.particles, log_density_fn, bandwidth, axis_name)
    direction = terms.direction()
    before = flatten_particles(state.second_moment)
    weight = jnp.where(state.step == 0, 0.0, jnp.asarray(decay, before.dtype))
    second_moment = weight * before + (1.0 - weight) * direction**2
    move = step_size / (damping + root(second_moment)) * direction
    moved = terms.own(terms.positions) + move
    after = AdaptiveSVGDState(
        unflatten_like(moved, state.particles),
        unflatten_like(second_moment, state.second_moment),
        state.step + 1,
    )
    return after, stein_info(terms, direction)


adaptive_svgd = bound(adaptive_svgd_init, adaptive_svgd_step, interacts=True)
