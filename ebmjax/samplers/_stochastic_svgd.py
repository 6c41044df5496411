"""SVGD with the noise that makes it a sampler."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName, first_key
from ebmjax._checks import check_positive
from ebmjax._ranges import BANDWIDTH, POSITIVE, optional
from ebmjax.samplers._bandwidth import Rule, bandwidth_at
from ebmjax.samplers._bound import bound
from ebmjax.samplers._states import check_state
from ebmjax.samplers._svgd import (
    SteinTerms,
    SVGDInfo,
    SVGDState,
    centre,
    multiply,
    stein_info,
    stein_terms,
    svgd_init,
    unflatten_like,
)
from ebmjax.types import Key, LogDensityFn

NUM_WAVES = 8
"""Number of waves, drawn anew at every step. With 4 or more, the error in law was that of exact
noise from a Cholesky factor (docs/samplers/svgd.md)."""
MEDIAN_PARTICLES = 4
"""In the two pairs of the median of an even number of distances."""


stochastic_svgd_init = svgd_init


def stochastic_svgd_step(
    key: Key,
    state: SVGDState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    bandwidth: Annotated[Any, optional(BANDWIDTH)] = None,
    temperature: Annotated[Any, POSITIVE] = 1.0,
    langevin_weight: Annotated[Any, POSITIVE] = 1e-3,
    axis_name: AxisName = None,
) -> tuple[SVGDState, SVGDInfo]:
    r"""Takes one step of the SVGD/Langevin hybrid, whose particles are draws from :math:`p^{1/T}`.

    .. math::
        x_i' = x_i + \frac{\epsilon}{n} \Big( \sum_j k(x_i, x_j)\, s(x_j) + \delta\, s(x_i)
               + T \sum_j \nabla_{x_j} k(x_i, x_j) \Big) + \sqrt{2 \epsilon T / n}\; \eta_i,
        \qquad \mathbb{E}\, \eta \eta^\top = K + \delta I

    with noise :math:`\eta_i` that is Gaussian for every particle and correlated between them. A
    median rule adds the drift that a moving bandwidth needs; docs/samplers/svgd.md derives it. The
    law is exact as :math:`\epsilon \to 0`, with a given ``bandwidth`` and with a median rule. A
    single particle follows Langevin dynamics with step ``(1 + langevin_weight) step_size``.

    Args:
      key: consumed by the noise; with ``axis_name`` every member needs a different one.
      step_size: :math:`\epsilon`, a positive scalar. Time runs n times slower than in Langevin
        dynamics.
      bandwidth: h in units of the particles: a positive number, ``"median"``, or None for
        ``median / sqrt(2 log n)``.
      temperature: T of the target, a positive scalar.
      langevin_weight: :math:`\delta`, positive share of independent Langevin dynamics.
      axis_name: as in ``svgd_direction``. The first member's key draws the correlated noise of all;
        each member's own key draws its independent part.

    Returns:
      The new state and an ``SVGDInfo`` about the drift.

    Source: Gallego & Rios Insua 2018; Nüsken & Renger 2021 for the noise :math:`2 \epsilon K / n`;
    the thesis on SVGD in JEM asks for it in 5.3.3 and 6.2.1.
    """
    check_state(state, "particles")
    for name, value in (
        ("step_size", step_size),
        ("temperature", temperature),
        ("langevin_weight", langevin_weight),
    ):
        check_positive(name, value, is_scalar=True)
    terms = stein_terms(state.particles, log_density_fn, bandwidth, axis_name)
    num_particles = len(terms.positions)
    positions, scores = terms.own(terms.positions), terms.own(terms.scores)

    drift = terms.direction(temperature) + langevin_weight / num_particles * scores
    if terms.median is not None and num_particles > 1:
        drift = drift + temperature / num_particles * _moving_bandwidth(terms, *terms.median)
    noise = _kernel_noise(key, terms, langevin_weight)
    noise_scale = jnp.sqrt(2.0 * step_size * temperature / num_particles)

    moved = positions + step_size * drift + noise_scale * noise
    return SVGDState(unflatten_like(moved, state.particles)), stein_info(terms, drift)


def _moving_bandwidth(
    terms: SteinTerms, middle: tuple[jax.Array, jax.Array], rule: Rule
) -> jax.Array:
    """Returns (m, d): the sum over j of dk(x_i, x_j)/dh times the gradient of h in x_j.

    Only the one or two pairs at the median move h. Where more tie there, some of them do; where
    most particles coincide, none.
    """
    squared, num_particles = terms.squared, len(terms.positions)
    is_attained = ((squared == middle[0]) | (squared == middle[1])) & (squared > 0)
    # A product with ones, which a CPU counts by faster than by a sum.
    num_attained = is_attained.astype(jnp.float32) @ jnp.ones(num_particles, jnp.float32)
    rows = jax.lax.top_k(num_attained, min(MEDIAN_PARTICLES, num_particles))[1]
    among = squared[rows][:, rows]
    slope = jax.grad(bandwidth_at, 1)(middle, among, num_particles, rule)
    pairs = jnp.where(among > 0, slope + slope.T, 0.0)
    # Differences do not change with the origin, their rounding does.
    centred = centre(terms.positions)[rows]
    gradient = 2.0 * (jnp.sum(pairs, axis=1)[:, None] * centred - multiply(pairs, centred))
    # This order forms no cube of a small bandwidth, which float32 would round to zero.
    growth = terms.kernel[:, rows] * (squared[:, rows] / terms.bandwidth**2) / terms.bandwidth
    return multiply(terms.own(growth), gradient)


def _kernel_noise(key: Key, terms: SteinTerms, independent: Any) -> jax.Array:
    r"""Returns (m, d): noise for the own particles, of covariance K + ``independent`` I.

    A Gaussian kernel is a mean over plane waves (Bochner): with :math:`w \sim N(0, I / h^2)`

    .. math:: \mathbb{E}\, \cos\big(w \cdot (x_i - x_j)\big) = k(x_i, x_j),

    so :math:`\cos(w \cdot x_i)\, \zeta + \sin(w \cdot x_i)\, \zeta'`, with standard normal vectors
    :math:`\zeta, \zeta'`, has the covariance K on average over w. Given any waves, one particle's
    noise is N(0, (1 + ``independent``) I). A separate phase for each particle makes the independent
    part. All waves are drawn with the first member's key. A factor of K would cost O(n^3).

    Source: Rahimi & Recht 2007 for the waves; using them as noise is new here.
    """
    positions = terms.own(centre(terms.positions))
    dimension, dtype = positions.shape[1], positions.dtype
    common_key, phase_key = jax.random.split(key)
    frequency_key, amplitude_key = jax.random.split(first_key(common_key, terms.axis_name))

    frequencies = jax.random.normal(frequency_key, (dimension, NUM_WAVES), dtype)
    phases = multiply(positions / terms.bandwidth, frequencies)
    own_phases = jax.random.uniform(phase_key, phases.shape, dtype, maxval=2.0 * jnp.pi)
    share = jnp.sqrt(jnp.asarray(independent, dtype))
    waves = jnp.concatenate(
        [
            jnp.cos(phases),
            jnp.sin(phases),
            share * jnp.cos(own_phases),
            share * jnp.sin(own_phases),
        ],
        axis=1,
    )
    amplitudes = jax.random.normal(amplitude_key, (waves.shape[1], dimension), dtype)
    return multiply(waves, amplitudes) / NUM_WAVES**0.5


stochastic_svgd = bound(stochastic_svgd_init, stochastic_svgd_step, interacts=True)
