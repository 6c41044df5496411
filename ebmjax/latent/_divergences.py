"""Divergences between Gaussians: given ones, and ones fitted to draws along a ladder."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


def gaussian_kl(
    mean_p: jax.Array, cov_p: jax.Array, mean_q: jax.Array, cov_q: jax.Array
) -> jax.Array:
    r"""Returns KL(p || q) of two Gaussians, by Cholesky factors and triangular solves.

    With :math:`\Sigma = L L^\top`, :math:`D = L_q^{-1}(L_p - L_q)` and
    :math:`w = L_q^{-1}(\mu_p - \mu_q)`,

    .. math::
        KL(p \| q) = \tfrac12 \|D\|_F^2 + \tfrac12 \|w\|^2
            + \textstyle\sum_i \left(D_{ii} - \log(1 + D_{ii})\right)

    which equals the usual trace and log-determinant form but only adds non-negative terms. It is
    exactly 0 for equal arguments and loses no digits for close ones.

    Args:
      mean_p, mean_q: shape (..., d).
      cov_p, cov_q: positive definite, shape (..., d, d).

    Returns:
      Shape (...), in nats; NaN where a covariance is not positive definite.

    Source: Calderhead & Girolami 2009; thermodynamic-integration thesis, Eq. 20, rearranged.
    """
    shapes = [jnp.shape(array) for array in (mean_p, cov_p, mean_q, cov_q)]
    if not shapes[0] or shapes != [shapes[0], (*shapes[0], shapes[0][-1])] * 2:
        raise ValueError(
            "gaussian_kl needs means of one shape (..., d) and covariances of shape (..., d, d), "
            f"got mean_p {shapes[0]}, cov_p {shapes[1]}, mean_q {shapes[2]}, cov_q {shapes[3]}."
        )
    # One call for both: two batched factorisations at once can deadlock on a CPU backend of two
    # threads (JAX 0.10.2).
    factor_p, factor_q = jnp.linalg.cholesky(jnp.stack([cov_p, cov_q]))
    return _kl_of_factors(mean_p, factor_p, mean_q, factor_q)


@partial(jax.jit, inline=True)  # one program also where nothing else is jitted
def _kl_of_factors(
    mean_p: jax.Array, factor_p: jax.Array, mean_q: jax.Array, factor_q: jax.Array
) -> jax.Array:
    offset = (mean_p - mean_q)[..., None]
    solved = solve_triangular(
        factor_q, jnp.concatenate([factor_p - factor_q, offset], axis=-1), lower=True
    )
    excess = jnp.diagonal(solved, axis1=-2, axis2=-1)
    squares = jnp.sum(jnp.square(solved), axis=(-2, -1))
    # Far below 0, 1 + excess is the rounding of a quotient that is good to all its digits.
    ratios = jnp.diagonal(factor_p, axis1=-2, axis2=-1) / jnp.diagonal(factor_q, axis1=-2, axis2=-1)
    is_small = excess < -0.5
    logs = jnp.where(
        is_small,
        jnp.log(jnp.where(is_small, ratios, 1.0)),
        jnp.log1p(jnp.where(is_small, 0.0, excess)),
    )
    return 0.5 * squares + jnp.sum(excess - logs, axis=-1)


def adjacent_divergences(mean: jax.Array, covariance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns both divergences between neighbours of a ladder of Gaussians, for ``log_evidence``.

    Args:
      mean: of each rung, shape (N_t + 1, ..., d).
      covariance: positive definite, shape (N_t + 1, ..., d, d).

    Returns:
      ``kl_forward`` and ``kl_backward``, each of shape (N_t, ...) in nats: entry i is KL(p_i ||
      p_{i+1}) and KL(p_{i+1} || p_i). NaN where a covariance is not positive definite.
    """
    forward, backward = _kl_of_factors(*_pairs(mean, covariance))
    return forward, backward


def fitted_divergences(
    samples: jax.Array, *, covariance: str = "full"
) -> tuple[jax.Array, jax.Array]:
    r"""Estimates both divergences between neighbours from draws at every rung of a ladder.

    Divergences between fitted Gaussians are too large. On average an inverse sample covariance is
    too large by the factor 1 / c, and distances of sample means by the means' variance. Without
    these errors, each term is unbiased for Gaussians:

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
      covariance: ``"full"``, for n of at least d + 3; or ``"diagonal"``, for uncorrelated
        coordinates and n of at least 4.

    Returns:
      ``kl_forward`` and ``kl_backward``, each of shape (N_t, ...) in nats: entry i is KL(p_i ||
      p_{i+1}) and KL(p_{i+1} || p_i). They can be negative, because they are unbiased. Not finite
      for draws that are not finite or all coincide.

    Source: the mean of an inverse Wishart matrix (Anderson 2003, Lemma 7.7.1).
    """
    shape = jnp.shape(samples)
    n, d = shape[-2:] if len(shape) > 2 else (0, 0)
    fewest = {"full": d + 3, "diagonal": 4}
    if covariance not in fewest:
        raise ValueError(f"covariance must be one of {[*fewest]}, got {covariance!r}.")
    if len(shape) < 3 or shape[0] < 2 or n < fewest[covariance]:
        raise ValueError(
            f"fitted_divergences with covariance={covariance!r} needs at least two rungs with at "
            f"least {fewest[covariance]} draws each in {d} dimensions, shape (rungs, ..., n, d), "
            f"got {shape}. Draw more, or use covariance='diagonal'."
        )
    c = (n - fewest[covariance] + 1) / (n - 1)
    mean_p, factor_p, mean_q, factor_q = _pairs(*gaussian_moments(samples, covariance == "full"))
    both = jnp.concatenate([factor_p, (mean_p - mean_q)[..., None]], axis=-1)
    squares = jnp.sum(jnp.square(solve_triangular(factor_q, both, lower=True)), axis=-2)
    trace, distance = jnp.sum(squares[..., :d], axis=-1), squares[..., d]
    ratio = jnp.diagonal(factor_q, axis1=-2, axis2=-1) / jnp.diagonal(factor_p, axis1=-2, axis2=-1)
    log_ratio = 2.0 * jnp.sum(jnp.log(ratio), axis=-1)
    excess = c * ((1.0 - 1.0 / n) * trace + distance) - d * (1.0 + 1.0 / n)
    forward, backward = 0.5 * (excess + log_ratio)
    return forward, backward


def gaussian_moments(samples: jax.Array, is_full: bool = True) -> tuple[jax.Array, jax.Array]:
    """Returns means (..., d) and unbiased covariances (..., d, d) of samples (..., n, d)."""
    first = samples[..., :1, :]
    # In the samples' own dtype: nothing cancels afterwards.
    mean, covariances = _moments(jnp.asarray(samples - first), is_full)
    return mean + first[..., 0, :], covariances


@partial(jax.jit, static_argnums=1, inline=True)
def _moments(offsets: jax.Array, is_full: bool) -> tuple[jax.Array, jax.Array]:
    mean, (n, d) = jnp.mean(offsets, axis=-2), offsets.shape[-2:]
    centred = offsets - mean[..., None, :]
    # TF32, an accelerator's default for float32, would leave three digits.
    products = jnp.einsum("...ni,...nj->...ij", centred, centred, precision="highest")
    full = products / (n - 1)
    identity = jnp.broadcast_to(jnp.eye(d, dtype=full.dtype), full.shape)
    return mean, full if is_full else full * identity


def _pairs(mean: jax.Array, covariance: jax.Array) -> tuple[jax.Array, ...]:
    """Returns means and factors of p and q for ``(p_i, p_{i+1})``, then for ``(p_{i+1}, p_i)``."""
    factor = jnp.linalg.cholesky(covariance)  # each once, in one call; see gaussian_kl
    mean, factor = (jnp.stack([array[:-1], array[1:]]) for array in (mean, factor))
    return mean, factor, mean[::-1], factor[::-1]
