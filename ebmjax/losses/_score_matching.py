"""Score matching: a loss of an energy's own score at the data, without negatives."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._precision import as_floats
from ebmjax.types import Metrics


def score_matching_loss(score: Any, divergence: Any) -> tuple[jax.Array, Metrics]:
    r"""Returns Hyvarinen's loss, whose minimum is the data's density.

    .. math:: L = \overline{\tfrac12 \|s(x)\|^2 + \nabla \cdot s(x)}

    The mean is over examples; the norm and the divergence are sums over coordinates. The divergence
    is exact, or sliced: :math:`v^T (\nabla s) v` for a random v of signs has its mean, and costs
    one ``jax.jvp`` instead of one for each coordinate. The norm stays exact, which lowers the
    variance (sliced score matching with variance reduction).

    Args:
      score: s = -grad E at the data, shape (N, ...).
      divergence: shape (N,), of the same scores.

    Returns:
      The scalar loss, float32 or float64 as the scores are, and metrics: ``score_norm``, the root
      of the mean squared norm, and ``divergence``, its mean.

    Source: Hyvarinen 2005, Theorem 1; Song et al. 2019 (sliced).

    Example:
      >>> x = jnp.array([[1.0], [-1.0]])  # E = x^2 / 2
      >>> float(score_matching_loss(-x, jnp.array([-1.0, -1.0]))[0])
      -0.5
    """
    score, divergence = jnp.asarray(score), as_floats("divergence", divergence)
    if score.ndim < 2 or len(score) != len(divergence):
        raise ValueError(
            f"score must have shape (N, ...) with N={len(divergence)}, the number of divergences; "
            f"got shape {score.shape}."
        )
    squares = jnp.sum(jnp.square(score.reshape(len(score), -1)).astype(divergence.dtype), axis=1)
    return jnp.mean(0.5 * squares + divergence), {
        "score_norm": jnp.sqrt(jnp.mean(squares)),
        "divergence": jnp.mean(divergence),
    }
