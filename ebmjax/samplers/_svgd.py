"""Stein variational gradient descent: particles that follow the score and repel each other."""

from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ebmjax._axes import AxisName, everywhere, gather_rows, own_rows, place_like
from ebmjax._checks import check_not_negative, check_positive, check_scalar_density
from ebmjax._precision import root
from ebmjax._ranges import BANDWIDTH, NOT_NEGATIVE, POSITIVE, optional
from ebmjax.samplers._bandwidth import Rule, is_rule, median_rule
from ebmjax.samplers._bound import bound
from ebmjax.samplers._states import check_particles, check_state
from ebmjax.types import Key, LogDensityFn, PyTree


class SVGDState(NamedTuple):
    """The particles: any PyTree of floating-point arrays with a leading axis of n particles."""

    particles: PyTree


class SVGDInfo(NamedTuple):
    """Report of one step.

    Attributes:
      bandwidth: scalar, in units of the particles.
      direction_norm: scalar, root mean square over particles of the direction's norm; times
        ``step_size`` it is the distance travelled.
      log_density: (n,), at the particles the step started from.

    If particles are spread over an axis, the last two are of the member's own particles.
    """

    bandwidth: jax.Array
    direction_norm: jax.Array
    log_density: jax.Array


class SteinTerms(NamedTuple):
    """Kernel and scores of particles flattened to rows.

    Attributes:
      positions: (n, d), float32 or wider: all n particles, also if they are spread.
      scores: (n, d), times the drive.
      log_density: (m,), at the member's own m = n / members particles.
      squared: (n, n), squared distances.
      kernel: (n, n).
      bandwidth: scalar.
      median: the two squared distances that made the bandwidth, and the rule; None if it was given.
      axis_name: axis over which the particles are spread.
    """

    positions: jax.Array
    scores: jax.Array
    log_density: jax.Array
    squared: jax.Array
    kernel: jax.Array
    bandwidth: jax.Array
    median: tuple[tuple[jax.Array, jax.Array], Rule] | None
    axis_name: AxisName

    def own(self, rows: jax.Array) -> jax.Array:
        """Returns (m, ...): the rows of (n, ...) that are the own particles'."""
        return own_rows(rows, len(self.log_density), self.axis_name)

    def direction(self, temperature: Any = 1.0) -> jax.Array:
        r"""Returns (m, d): the kernel-averaged score plus ``temperature`` times repulsion.

        As :math:`\nabla_{x_j} k = k\, (x_i - x_j) / h^2`, one product with the kernel makes both
        sums.
        """
        per_distance = temperature / self.bandwidth**2
        # Differences do not change with the origin, their rounding does.
        centred = centre(self.positions)
        kernel = self.own(self.kernel)
        pulled = multiply(kernel, self.scores - per_distance * centred)
        row_sums = jnp.sum(kernel, axis=1, keepdims=True)
        return (pulled + per_distance * row_sums * self.own(centred)) / len(self.positions)


def multiply(left: jax.Array, right: jax.Array) -> jax.Array:
    """Returns a matrix product in float32, also on accelerators whose default is coarser."""
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def flatten_particles(particles: PyTree) -> jax.Array:
    """Returns rows (n, d), one a particle, in float32 or wider, on every device of a mesh."""
    rows = jax.vmap(lambda particle: ravel_pytree(particle)[0])(everywhere(particles))
    return rows.astype(jnp.promote_types(rows.dtype, jnp.float32))


def unflatten_like(rows: jax.Array, particles: PyTree) -> PyTree:
    """Returns rows of shape (n, d) in the structure, dtypes and places of ``particles``."""
    whole = everywhere(particles)
    flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], whole))
    return place_like(jax.vmap(unravel)(rows.astype(flat.dtype)), particles)


def centre(positions: jax.Array) -> jax.Array:
    """Returns ``positions`` (n, d) around their mean, the same numbers for every use.

    With 1/n outside the sum, compilers would fuse and round it differently in each use.
    """
    return positions - jnp.sum(positions * (1.0 / len(positions)), axis=0, keepdims=True)


def squared_distances(positions: jax.Array) -> jax.Array:
    """Returns squared distances (n, n), from the Gram matrix of ``positions`` (n, d).

    Those below rounding count as zero; otherwise the median of mostly coincident particles would be
    a rounding error.
    """
    # The origin does not change distances; their rounding grows with the norms.
    centred = centre(positions)
    gram = multiply(centred, centred.T)
    norms = jnp.diagonal(gram)
    sums = norms[:, None] + norms[None, :]
    squared = sums - 2.0 * gram
    is_same = squared <= 4.0 * jnp.finfo(positions.dtype).eps * sums
    return jnp.where(is_same | jnp.eye(len(positions), dtype=bool), 0.0, squared)


def stein_terms(
    particles: PyTree,
    log_density_fn: LogDensityFn,
    bandwidth: Any,
    axis_name: AxisName,
    drive: Any = 1.0,
) -> SteinTerms:
    """Returns scores and kernel matrix in O(n^2 + n d) memory, from the Gram matrix.

    Every member of ``axis_name`` scores its own particles and holds the matrices of all. If each
    computed only its rows, rounding could make members' bandwidths differ.
    """
    check_particles(particles)
    first = jax.eval_shape(partial(jax.tree.map, lambda leaf: leaf[0]), everywhere(particles))
    check_scalar_density(log_density_fn, first)
    check_not_negative("drive", drive, is_scalar=True)
    has_rule = is_rule(bandwidth)
    if not has_rule:
        check_positive("bandwidth", bandwidth, is_scalar=True)
    log_density, scores = jax.vmap(jax.value_and_grad(log_density_fn))(particles)
    positions = gather_rows(flatten_particles(particles), axis_name)

    squared = squared_distances(positions)
    if has_rule:
        width, middle = median_rule(squared, bandwidth)
        median = middle, bandwidth
    else:  # as a float: the square of an integer may not fit
        width, median = jnp.asarray(bandwidth, positions.dtype), None
    kernel = jnp.exp(-0.5 * squared / width**2)
    scores = drive * gather_rows(flatten_particles(scores), axis_name)
    return SteinTerms(positions, scores, log_density, squared, kernel, width, median, axis_name)


def svgd_direction(
    particles: PyTree,
    log_density_fn: LogDensityFn,
    *,
    bandwidth: Any = None,
    axis_name: AxisName = None,
) -> PyTree:
    r"""Returns the direction in which SVGD moves each particle.

    .. math::
        \phi_i = \frac{1}{n} \sum_j \big[ k(x_j, x_i)\, s(x_j) + \nabla_{x_j} k(x_j, x_i) \big],
        \qquad k(x, y) = \exp\!\Big(-\frac{\lVert x - y \rVert^2}{2 h^2}\Big)

    Args:
      particles: PyTree of floating-point arrays with a leading axis of n particles.
      log_density_fn: one particle to scalar.
      bandwidth: as in ``svgd_step``.
      axis_name: mapped axis, or axes, over which the particles are spread, equally many a member; n
        counts all. Positions and scores are gathered, O(n d) numbers, and every member has the (n,
        n) kernel. None if ``particles`` are all.

    Returns:
      A PyTree like ``particles``. One particle gets its score; particles that coincide do not repel
      each other. In float32 the Gram matrix treats pairs as coincident if they are nearer than
      about 1e-3 of the particles' distance from their mean.

    Source: Liu & Wang 2016, Alg. 1; SVGD-in-JEM thesis, section 3.3.
    """
    terms = stein_terms(particles, log_density_fn, bandwidth, axis_name)
    return unflatten_like(terms.direction(), particles)


def svgd_init(particles: PyTree, log_density_fn: LogDensityFn) -> SVGDState:
    """Wraps ``particles``: a PyTree of floating-point arrays with a shared leading axis."""
    del log_density_fn
    check_particles(particles)
    # The dtype is explicit, as in langevin_init: a weak type would change after one step.
    return SVGDState(jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), particles))


def svgd_step(
    key: Key,
    state: SVGDState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    bandwidth: Annotated[Any, optional(BANDWIDTH)] = None,
    drive: Annotated[Any, NOT_NEGATIVE] = 1.0,
    axis_name: AxisName = None,
) -> tuple[SVGDState, SVGDInfo]:
    r"""Moves every particle by :math:`\epsilon\, \phi_i`; see ``svgd_direction``.

    Particles together approximate the density but are not draws from it. To clip the score
    elementwise, as the SVGD-in-JEM thesis does, pass ``clip_score(log_density_fn, ...)``.

    Args:
      step_size: :math:`\epsilon`, a positive scalar. One kernel spans all leaves, so there is no
        step for each leaf; rescale the coordinates instead.
      bandwidth: h in units of the particles: a positive number, ``"median"``, or None for
        ``median / sqrt(2 log n)``.
      drive: scalar, at least 0, multiplies the scores and not the repulsion. Particles approximate
        :math:`p^{\mathrm{drive}}`; a ``schedule`` that raises it to 1 anneals.
      axis_name: as in ``svgd_direction``.
    """
    del key
    check_state(state, "particles")
    check_positive("step_size", step_size, is_scalar=True)
    terms = stein_terms(state.particles, log_density_fn, bandwidth, axis_name, drive)
    direction = terms.direction()
    moved = terms.own(terms.positions) + step_size * direction
    return SVGDState(unflatten_like(moved, state.particles)), stein_info(terms, direction)


def stein_info(terms: SteinTerms, direction: jax.Array) -> SVGDInfo:
    """Returns the report of a step along ``direction`` (m, d)."""
    direction_norm = root(jnp.mean(jnp.sum(direction**2, axis=1)))
    return SVGDInfo(terms.bandwidth, direction_norm, terms.log_density)


svgd = bound(svgd_init, svgd_step, interacts=True)
