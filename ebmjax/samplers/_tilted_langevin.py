"""Langevin dynamics of a Gaussian that a network tilts, in the Gaussian's own coordinates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg

from ebmjax._axes import row_of
from ebmjax._checks import check_at_least, check_positive, check_scalar
from ebmjax.samplers._bind import bind
from ebmjax.samplers._langevin import (
    LangevinInfo,
    LangevinState,
    acceptance_probability,
    langevin_init,
    log_proposal_ratio,
    move,
    standard_normal_like,
)
from ebmjax.samplers._starts import StartFn
from ebmjax.samplers._states import check_one_chain
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


class FactorGaussian(NamedTuple):
    """Gaussian of images: a variance for each of a few directions, one for all the others.

    Attributes:
      mean: of shape ``shape``, the images'.
      directions: orthonormal columns (d, k), d pixels an image.
      variances: along them, (k,).
      rest: variance along every other direction, a scalar.
    """

    mean: jax.Array
    directions: jax.Array
    variances: jax.Array
    rest: jax.Array

    def apply(self, function: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
        """Returns the covariance's ``function`` (square root, inverse, ...) times ``x``."""
        flat, rest = x.ravel(), function(self.rest)
        along = (function(self.variances) - rest) * (flat @ self.directions)
        return (rest * flat + self.directions @ along).reshape(x.shape)


def fit_factor_gaussian(
    images: Any, num_directions: int = 128, jitter: float = 0.03**2
) -> FactorGaussian:
    """Fits a ``FactorGaussian`` by maximum likelihood, as probabilistic principal components.

    Args:
      images: (n, *shape), floating point, at least two.
      num_directions: k at most; fewer where there are fewer images or pixels.
      jitter: variance added along every direction, in squared units of the images, for pixels that
        never change.

    Source: Tipping & Bishop 1999.

    Example:
      >>> images = np.random.default_rng(0).normal(size=(50, 2, 2, 1))
      >>> fit_factor_gaussian(images, 3).directions.shape
      (4, 3)
    """
    check_at_least("num_directions", num_directions, 1)
    check_positive("jitter", jitter)
    images = np.asarray(images, np.float64)
    check_at_least("len(images)", len(images), 2)
    mean, flat = images.mean(axis=0), images.reshape(len(images), -1)
    centred = flat - mean.ravel()
    num, size = centred.shape
    count = min(num_directions, num - 1, size)
    # The smaller of the two Gram matrices has the same eigenvalues.
    is_wide = num < size
    gram = centred @ centred.T if is_wide else centred.T @ centred
    largest = (len(gram) - count, len(gram) - 1)
    values, vectors = scipy.linalg.eigh(gram / num, subset_by_index=largest)
    values = np.maximum(values, 0.0)
    if is_wide:
        vectors = np.linalg.qr(centred.T @ vectors)[0]
    others = max(size - count, 1)
    rest = max(np.sum(centred**2) / num - np.sum(values), 0.0) / others
    arrays = (mean, vectors, np.maximum(values, rest) + jitter, rest + jitter)
    return FactorGaussian(*(jnp.asarray(array, jnp.float32) for array in arrays))


def factor_gaussian_start(bases: FactorGaussian) -> StartFn:
    """Returns starts drawn from the Gaussian of a class.

    Args:
      bases: one Gaussian a class, stacked along a first axis of every array.
    """
    return jax.tree_util.Partial(_draw_start, bases)


def _draw_start(bases: FactorGaussian, key: Key, label: Any) -> jax.Array:
    base = jax.tree.map(lambda rows: row_of(rows, label), bases)
    noise = jax.random.normal(key, base.mean.shape, base.mean.dtype)
    return base.mean + base.apply(jnp.sqrt, noise)


def tilted_langevin_init(position: PyTree, log_density_fn: LogDensityFn) -> LangevinState:
    """Scores ``position`` by the network's log density f, without the Gaussian's."""
    return langevin_init(position, log_density_fn)


def tilted_langevin_step(
    key: Key,
    state: LangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Any,
    base: FactorGaussian | None = None,
    temperature: Any = 1.0,
) -> tuple[LangevinState, LangevinInfo]:
    r"""Takes one step, never rejected, whose metric is the covariance of ``base``.

    .. math::
        x' = x + \epsilon\, \Sigma\, s(x) + \sqrt{2 \epsilon T}\, \Sigma^{1/2} \xi, \qquad
        s = \nabla \left( f + T \log q \right)

    with :math:`q = \mathcal N(\mu, \Sigma)` and the log density f of a network. Its law tends to
    :math:`q(x)\, e^{f(x) / T}` as :math:`\epsilon \to 0`: the network only has to say where the
    data differ from a Gaussian. A step is the same share of every direction's own deviation, so
    pixels that never change stay, and a step suits images of any size. For f = 0 a step keeps q, up
    to a factor :math:`1 / (1 - \epsilon T / 2)` of its covariance.

    Args:
      key: consumed by the noise.
      state: from ``tilted_langevin_init`` or an earlier step.
      log_density_fn: f, from one position to a scalar.
      step_size: drift coefficient :math:`\epsilon`, per unit of f. A step replaces the share
        :math:`2 \epsilon T` of the variance.
      base: q of positions that are one array; None for N(0, I) of any PyTree.
      temperature: T, a positive scalar.

    Returns:
      The new state and a ``LangevinInfo``, with log densities f. Its ``acceptance_prob`` is that of
      Metropolis and Hastings for this move and the tilted density.

    Source: the preconditioned Langevin proposal of Cotter, Roberts, Stuart & White 2013, explicit;
    tilted base densities as in Xie et al. 2016 and Nijkamp et al. 2022.
    """
    check_one_chain(state, "score")
    for name, value in {"step_size": step_size, "temperature": temperature}.items():
        check_scalar(name, value)
        check_positive(name, value)
    noise = standard_normal_like(key, state.position)
    noise_scale = jnp.sqrt(2.0 * step_size * temperature)
    drift = optax.tree.sub(
        _scale(base, lambda v: step_size * v, state.score),
        optax.tree.scale(step_size * temperature, _centre(base, state.position)),
    )
    jump = _scale(base, lambda v: noise_scale * jnp.sqrt(v), noise)
    proposed = langevin_init(move(state.position, drift, jump), log_density_fn)
    old, new = (
        _scale(base, jax.lax.rsqrt, _centre(base, one.position)) for one in (state, proposed)
    )
    scores = _scale(base, jnp.sqrt, optax.tree.add(state.score, proposed.score))
    pull = optax.tree.scale(temperature, optax.tree.add(old, new))
    shift = optax.tree.scale(step_size / noise_scale, optax.tree.sub(scores, pull))
    log_ratio = (proposed.log_density - state.log_density) / temperature
    log_ratio += 0.5 * (optax.tree.norm(old, squared=True) - optax.tree.norm(new, squared=True))
    log_ratio += log_proposal_ratio(noise, shift)
    probability = acceptance_probability(log_ratio, proposed.log_density)
    return proposed, LangevinInfo(probability, jnp.array(True), proposed.log_density)


def _scale(base: FactorGaussian | None, function: Callable[[Any], Any], x: PyTree) -> PyTree:
    """Returns a function of the covariance times ``x``; that of None is the identity."""
    if base is not None:
        return base.apply(function, x)
    return optax.tree.scale(function(jnp.float32(1.0)), x)


def _centre(base: FactorGaussian | None, position: PyTree) -> PyTree:
    return position if base is None else position - base.mean


def tilted_langevin(
    log_density_fn: LogDensityFn,
    *,
    step_size: Any,
    base: FactorGaussian | None = None,
    temperature: Any = 1.0,
) -> Sampler[LangevinState, LangevinInfo]:
    """Binds ``tilted_langevin_init`` and ``tilted_langevin_step``.

    Example:
      >>> base = fit_factor_gaussian(np.random.default_rng(0).normal(size=(50, 2, 2, 1)))
      >>> sampler = tilted_langevin(lambda x: -x[0, 0, 0] ** 2, base=base, step_size=0.1)
      >>> state, info = sampler.step(jax.random.key(0), sampler.init(jnp.zeros((2, 2, 1))))
      >>> state.position.shape
      (2, 2, 1)
    """
    return bind(
        tilted_langevin_init,
        tilted_langevin_step,
        log_density_fn,
        step_size=step_size,
        base=base,
        temperature=temperature,
    )
