"""The divergence between two Gaussians, and Gaussians fitted to samples."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

_COVARIANCES = ("full", "diagonal", "shrunk")


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

    Example:
      >>> eye = jax.numpy.eye(2)
      >>> float(gaussian_kl(jax.numpy.ones(2), eye, jax.numpy.zeros(2), eye))
      1.0

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
    return kl_of_factors(mean_p, factor_p, mean_q, factor_q)


@partial(jax.jit, inline=True)  # one program also where nothing else is jitted
def kl_of_factors(
    mean_p: jax.Array, factor_p: jax.Array, mean_q: jax.Array, factor_q: jax.Array
) -> jax.Array:
    """Returns ``gaussian_kl`` from Cholesky factors."""
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


def gaussian_moments(
    samples: jax.Array, *, covariance: str = "full"
) -> tuple[jax.Array, jax.Array]:
    r"""Returns mean and covariance of samples.

    Args:
      samples: shape (..., n, d): n draws in d dimensions, one Gaussian per leading index.
      covariance: ``"full"`` is the unbiased sample covariance S, and needs n > d.
        ``"diagonal"`` is its diagonal. ``"shrunk"`` is oracle approximating shrinkage :math:`(1 -
        \rho) S + \rho \mu I`, positive definite unless all draws are the same. Its :math:`\mu =
        \operatorname{tr} S / d`, :math:`a = \|S\|_F^2 / d^2` and :math:`\rho = \min(1, (a + \mu^2)
        / ((n + 1)(a - \mu^2 / d)))`.

    Returns:
      Means of shape (..., d) and covariances of shape (..., d, d). Divergences between such
      Gaussians are biased; ``fitted_divergences`` are not.

    Source: Chen, Wiesel, Eldar & Hero 2010, Eq. 23, without its terms in 2 / d, as scikit-learn.
    """
    if covariance not in _COVARIANCES:
        raise ValueError(f"covariance must be one of {_COVARIANCES}, got {covariance!r}.")
    if jnp.ndim(samples) < 2 or jnp.shape(samples)[-2] < 2:
        raise ValueError(
            "samples must have shape (..., n, d) with at least two draws n, got "
            f"{jnp.shape(samples)}."
        )
    n, d = samples.shape[-2:]
    if covariance == "full" and n <= d:
        raise ValueError(
            f"{n} samples in {d} dimensions have a singular covariance, so covariance='full' "
            "needs more samples than dimensions. Draw more, or use covariance='diagonal' or "
            "covariance='shrunk'."
        )
    first = samples[..., :1, :]
    # In the samples' own dtype: nothing cancels afterwards.
    mean, covariances = _moments(jnp.asarray(samples - first), covariance)
    return mean + first[..., 0, :], covariances


@partial(jax.jit, static_argnums=1, inline=True)
def _moments(offsets: jax.Array, covariance: str) -> tuple[jax.Array, jax.Array]:
    mean, n = jnp.mean(offsets, axis=-2), offsets.shape[-2]
    centred = offsets - mean[..., None, :]
    # TF32, an accelerator's default for float32, would leave three digits.
    products = jnp.einsum("...ni,...nj->...ij", centred, centred, precision="highest")
    full = products / (n - 1)
    if covariance == "diagonal":
        return mean, full * _identity_like(full)
    return mean, full if covariance == "full" else _shrink(full, n)


def _shrink(covariance: jax.Array, num_samples: int) -> jax.Array:
    d = covariance.shape[-1]
    scale = jnp.trace(covariance, axis1=-2, axis2=-1) / d
    mean_square = jnp.mean(jnp.square(covariance), axis=(-2, -1))
    spread = (num_samples + 1) * (mean_square - jnp.square(scale) / d)
    ratio = (mean_square + jnp.square(scale)) / jnp.where(spread > 0.0, spread, 1.0)
    shrinkage = jnp.where(spread > 0.0, jnp.minimum(ratio, 1.0), 1.0)[..., None, None]
    target = scale[..., None, None] * _identity_like(covariance)
    return (1.0 - shrinkage) * covariance + shrinkage * target


def _identity_like(covariance: jax.Array) -> jax.Array:
    eye = jnp.eye(covariance.shape[-1], dtype=covariance.dtype)
    return jnp.broadcast_to(eye, covariance.shape)
