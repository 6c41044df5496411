"""Langevin dynamics preconditioned by a running second moment of the score (RMSprop)."""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import place_like
from ebmjax._checks import check_fraction, check_positive
from ebmjax._precision import at_least_float32, root
from ebmjax._ranges import FLAG, NOT_NEGATIVE, POSITIVE, PROBABILITY, optional
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import (
    find_temperature,
    langevin_init,
    propose,
)
from ebmjax.samplers._states import check_state
from ebmjax.types import Key, LogDensityFn, PyTree


class PSGLDState(NamedTuple):
    """A scored position with the running second moment of its scores.

    Attributes:
      position, log_density, score: as in ``LangevinState``.
      second_moment: V, shaped like ``position``; zero at the start. It is float32 or wider:
        bfloat16 would round its small updates away.
    """

    position: PyTree
    log_density: jax.Array
    score: PyTree
    second_moment: PyTree

    even = ("second_moment",)


class PSGLDInfo(NamedTuple):
    """A ``LangevinInfo``, for a fixed metric, and G's mean over coordinates."""

    acceptance_prob: jax.Array
    is_accepted: jax.Array
    log_density: jax.Array
    preconditioner: jax.Array


def psgld_init(position: PyTree, log_density_fn: LogDensityFn) -> PSGLDState:
    """Scores ``position`` and sets the second moment to zero."""
    scored = langevin_init(position, log_density_fn)
    # Made from the score, so that under jax.shard_map it varies over the same axes.
    second_moment = optax.tree.zeros_like(at_least_float32(scored.score))
    return PSGLDState(*scored, second_moment)


def psgld_step(
    key: Key,
    state: PSGLDState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    noise_scale: Annotated[Any, optional(NOT_NEGATIVE)] = None,
    temperature: Annotated[Any, optional(POSITIVE)] = None,
    decay: Annotated[Any, PROBABILITY] = 0.99,
    damping: Annotated[Any, POSITIVE] = 1e-5,
    curvature_drift: Annotated[bool, FLAG] = False,
) -> tuple[PSGLDState, PSGLDInfo]:
    r"""Takes one step, never rejected, in the metric of the score's running second moment.

    .. math::
        V' = a V + (1 - a)\, s(x)^2, \qquad G = \frac{1}{\lambda + \sqrt{V'}}, \qquad
        x' = x + \epsilon\, (G s(x) + T\, \Gamma) + \sqrt{2 \epsilon T G}\; \xi

    all elementwise. At a constant decay below 1 this does not sample p: the metric follows the
    chain, and as the step shrinks the law tends to p / G. To sample p, let the adaptation end:
    under ``ebmjax.samplers.schedule``, give a ``decay`` that tends to 1, such as ``1 - 1 / (step +
    2)``. Once it is 1, G is frozen and this is SGLD in rescaled coordinates.

    Both theses drop :math:`\Gamma_i = \partial G_i / \partial x_i`. ``curvature_drift`` adds it as
    Li et al. do, with the slope in the newest score alone; that corrects the law at a = 0 and
    hardly at 0.99. One Hessian-vector product with random signs estimates its Hessian diagonal:
    unbiased, and exact for independent coordinates.

    Args:
      step_size: :math:`\epsilon`, positive, in the forms of ``sgld_step``; in units of the
        preconditioned dynamics.
      noise_scale: None for the exact, preconditioned noise. A number, or a PyTree of them like
        ``step_size``, is the standard deviation of plain noise (the image form, thesis Alg. 9). It
        sets T in :math:`\Gamma` and in the reported acceptance, ``noise_scale^2 / (2 step_size)``.
      temperature: T of the target, a scalar; None is 1.0 if there is no ``noise_scale``. Giving
        both is refused.
      decay: a in [0, 1]; at 1 the metric stays as the state has it.
      damping: :math:`\lambda`, positive. While V is near zero, the step is multiplied by about ``1
        / damping``: 1e-5 suits scores of order one, images need up to 1.
      curvature_drift: whether to add :math:`\Gamma` (static).

    Source: Li et al. 2016; sampling-approaches thesis, Alg. 6 and 9. Alg. 6 uses the moment of the
    previous step, which is zero at first and makes the first step ``1 / damping`` times too long.
    This follows Alg. 9 and Li et al.
    """
    check_state(state, *PSGLDState._fields)
    temperature = find_temperature(step_size, noise_scale, temperature, state.position)
    check_positive("damping", damping)
    check_fraction("decay", decay)
    if not isinstance(curvature_drift, bool):
        raise TypeError(f"curvature_drift must be True or False, got {curvature_drift!r}.")
    second_moment = jax.tree.map(
        lambda v, s: (decay * v + (1.0 - decay) * jnp.square(s.astype(v.dtype))).astype(v.dtype),
        state.second_moment,
        state.score,
    )
    metric = jax.tree.map(lambda v: 1.0 / (damping + root(v)), second_moment)

    correction = optax.tree.zeros_like(state.score)
    if curvature_drift:
        key, sign_key = jax.random.split(key)
        signs = optax.tree.random_like(sign_key, state.position, jax.random.rademacher)
        signs = place_like(signs, state.position)  # a tangent must be where its primal is
        _, curvature = jax.jvp(jax.grad(log_density_fn), (state.position,), (signs,))

        def slope(g: Any, v: Any, s: Any, sign: Any, hessian_sign: Any) -> jax.Array:
            """Returns -G_i^2 (1 - decay) s_i H_ii / sqrt(V_i), where H_ii is v_i (H v)_i."""
            # Where V is zero, so is the score: the quotient tends to a finite number times zero.
            unit_score = s / jnp.sqrt(jnp.where(v > 0, v, 1.0))
            return -(g**2) * (1.0 - decay) * unit_score * sign * hessian_sign

        slopes = jax.tree.map(slope, metric, second_moment, state.score, signs, curvature)
        correction = jax.tree.map(lambda c: temperature * c, slopes)

    proposed, acceptance_prob = propose(
        key,
        state,
        log_density_fn,
        step_size=step_size,
        noise_scale=noise_scale,
        temperature=temperature,
        metric=metric,
        drift_fn=lambda score: jax.tree.map(lambda g, s, c: g * s + c, metric, score, correction),
    )
    mean_metric = jnp.asarray(optax.tree.sum(metric)) / optax.tree.size(metric)
    info = PSGLDInfo(acceptance_prob, jnp.array(True), proposed.log_density, mean_metric)
    return PSGLDState(*proposed, second_moment), info


psgld = bound(psgld_init, psgld_step)
