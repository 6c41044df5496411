"""Divergences between neighbours of a ladder, for given Gaussians or from draws."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from ebmjax._checks import is_traced
from ebmjax.latent._gaussian import gaussian_moments, kl_of_factors


def adjacent_divergences(mean: jax.Array, covariance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns both divergences between neighbours of a ladder of Gaussians, for ``log_evidence``.

    Args:
      mean: of each rung, shape (N_t + 1, ..., d).
      covariance: positive definite, shape (N_t + 1, ..., d, d).

    Returns:
      ``kl_forward`` and ``kl_backward``, each of shape (N_t, ...) in nats: entry i is KL(p_i ||
      p_{i+1}) and KL(p_{i+1} || p_i). NaN where a covariance is not positive definite.

    Example:
      >>> forward, backward = adjacent_divergences(
      ...     jnp.array([[0.0], [1.0], [1.0]]), jnp.ones((3, 1, 1)))
      >>> forward.tolist(), backward.tolist()
      ([0.5, 0.0], [0.5, 0.0])
    """
    if mean.ndim < 2 or len(mean) < 2 or covariance.shape != (*mean.shape, mean.shape[-1]):
        raise ValueError(
            "adjacent_divergences needs means of shape (rungs, ..., d) with at least two rungs and "
            f"covariances of shape (rungs, ..., d, d), got {mean.shape} and {covariance.shape}."
        )
    forward, backward = kl_of_factors(*_pairs(mean, covariance))
    return forward, backward


def fitted_divergences(
    samples: jax.Array, *, covariance: str = "full"
) -> tuple[jax.Array, jax.Array]:
    r"""Estimates both divergences between neighbours from draws at every rung of a ladder.

    Divergences between fitted Gaussians are too large, most of all the one to the narrower
    neighbour. So their difference in ``log_evidence`` is biased: by several nats with 64 draws in
    16 dimensions. On average an inverse sample covariance is too large by the factor 1 / c, and
    distances of sample means by the means' variance. Without these errors, each term is unbiased
    for Gaussians:

    .. math::
        KL(p \| q) \approx \tfrac12 \left\{ c \left(1 - \tfrac1n\right)
            \operatorname{tr}(S_q^{-1} S_p) + c\, \delta^\top S_q^{-1} \delta
            - d \left(1 + \tfrac1n\right) + \log\frac{|S_q|}{|S_p|} \right\},
        \qquad c = \frac{n - d - 2}{n - 1}

    with the difference of means :math:`\delta`, and :math:`c = (n - 3) / (n - 1)` for diagonal
    covariances.

    Args:
      samples: n draws at every rung, shape (N_t + 1, ..., n, d), independent of the neighbours'
        draws. For chains annealed from rung to rung, the correction is too large by the share of
        its neighbour that a rung remembers.
      covariance: ``"full"``, for n of at least d + 3; ``"diagonal"``, for uncorrelated coordinates
        and n of at least 4; or ``"shrunk"`` as in ``gaussian_moments``, which is not corrected.

    Returns:
      ``kl_forward`` and ``kl_backward`` as from ``adjacent_divergences``. They can be negative,
      because they are unbiased. NaN for draws that are not finite and, under ``jit``, for a
      singular covariance.

    Example:
      >>> samples = jax.random.normal(jax.random.key(0), (2, 9, 3))  # of one Gaussian
      >>> plugged, _ = adjacent_divergences(*gaussian_moments(samples))
      >>> forward, _ = fitted_divergences(samples)
      >>> bool(abs(forward[0]) < plugged[0])
      True

    Source: the mean of an inverse Wishart matrix (Anderson 2003, Lemma 7.7.1).
    """
    mean, fitted = gaussian_moments(samples, covariance=covariance)
    n, d = samples.shape[-2:]
    smallest = {"full": d + 3, "diagonal": 4, "shrunk": 2}[covariance]
    if samples.ndim < 3 or len(samples) < 2 or n < smallest:
        raise ValueError(
            f"fitted_divergences with covariance={covariance!r} needs at least two rungs with at "
            f"least {smallest} draws each in {d} dimensions, shape (rungs, ..., n, d), got "
            f"{samples.shape}. Draw more, or use another covariance."
        )
    _check_regular(mean, fitted, n, covariance)
    if covariance == "shrunk":
        return adjacent_divergences(mean, fitted)
    c = (n - smallest + 1) / (n - 1)
    mean_p, factor_p, mean_q, factor_q = _pairs(mean, fitted)
    both = jnp.concatenate([factor_p, (mean_p - mean_q)[..., None]], axis=-1)
    squares = jnp.sum(jnp.square(solve_triangular(factor_q, both, lower=True)), axis=-2)
    trace, distance = jnp.sum(squares[..., :d], axis=-1), squares[..., d]
    ratio = jnp.diagonal(factor_q, axis1=-2, axis2=-1) / jnp.diagonal(factor_p, axis1=-2, axis2=-1)
    log_ratio = 2.0 * jnp.sum(jnp.log(ratio), axis=-1)
    excess = c * ((1.0 - 1.0 / n) * trace + distance) - d * (1.0 + 1.0 / n)
    forward, backward = 0.5 * (excess + log_ratio)
    return forward, backward


def _check_regular(mean: jax.Array, fitted: jax.Array, n: int, covariance: str) -> None:
    """Raises ValueError for the first rung whose covariance is singular up to rounding.

    A covariance counts as singular if a deviation lies within n eps of the mean, the rounding of a
    mean of n. It also does if an eigenvalue of the correlations lies within d eps of 0.
    """
    if is_traced(fitted):
        return
    means, matrices = np.asarray(mean, np.float64), np.asarray(fitted, np.float64)
    # Draws that are not finite give NaN, without an error.
    is_known = np.isfinite(matrices).all(axis=(-2, -1))
    means, matrices = means[is_known], matrices[is_known]
    eps, d = float(jnp.finfo(fitted.dtype).eps), means.shape[-1]
    deviations = np.sqrt(np.diagonal(matrices, axis1=-2, axis2=-1))
    is_spread = (deviations > n * eps * np.abs(means)).all(axis=-1)
    scales = np.where(deviations > 0, deviations, 1.0)
    correlations = matrices / (scales[:, :, None] * scales[:, None, :])
    is_regular = is_spread & (np.linalg.eigvalsh(correlations)[:, 0] > d * eps)
    found = np.argwhere(is_known)[~is_regular]
    if len(found):
        raise ValueError(
            f"the draws of rung {found[0][0]} have a singular covariance={covariance!r}: they "
            "coincide, or some coordinates of theirs determine others. Move the chains further, "
            "draw more, or use covariance='diagonal' or 'shrunk', which correlations do not harm."
        )


def _pairs(mean: jax.Array, covariance: jax.Array) -> tuple[jax.Array, ...]:
    """Returns means and factors of p and q for ``(p_i, p_{i+1})``, then for ``(p_{i+1}, p_i)``."""
    factor = jnp.linalg.cholesky(covariance)  # each once, in one call; see gaussian_kl
    mean, factor = (jnp.stack([array[:-1], array[1:]]) for array in (mean, factor))
    return mean, factor, mean[::-1], factor[::-1]
