"""Estimates with their standard errors, and the log of a mean of weights."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp


class Estimate(NamedTuple):
    """An estimate and its standard error.

    Attributes:
      value: in nats, an array of any shape or a number.
      standard_error: of ``value``, in nats, with its shape. It measures the draws' spread, not a
        bias, such as that of chains that did not mix.
    """

    value: Any
    standard_error: Any

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Returns the difference of two independent estimates; their squared errors add."""
        error = jnp.hypot(self.standard_error, other.standard_error)
        return Estimate(self.value - other.value, error)


def log_mean_exp(log_weights: jax.Array) -> Estimate:
    r"""Returns the log of the mean weight over the leading axis, with its standard error.

    .. math::
        \log \bar w, \qquad \operatorname{se} = \frac{\operatorname{sd}(w)}{\bar w \sqrt n}

    The mean is unbiased if the weights are; its log is too low, by about half the squared standard
    error. The error stays below 1 even if one weight dominates: above 0.3 trust neither.

    Args:
      log_weights: of n >= 2 independent draws, shape (n, ...); -inf is a weight of 0.

    Returns:
      Shape (...). If all weights are 0, the value is -inf and the error NaN.

    Source: the delta method.
    """
    log_weights = jnp.asarray(log_weights)
    if log_weights.ndim == 0 or len(log_weights) < 2:
        raise ValueError(
            "log_weights must have shape (n, ...) with at least n = 2 draws, or there is no "
            f"standard error; got shape {log_weights.shape}. Draw more chains."
        )
    n = len(log_weights)
    value = logsumexp(log_weights, axis=0) - jnp.log(n)
    relative = jnp.exp(log_weights - value[None])
    return Estimate(value, mean_error(relative))


def mean_error(values: jax.Array) -> jax.Array:
    """Returns the standard error of the mean of independent values over the leading axis."""
    return jnp.std(values, axis=0, ddof=1) / jnp.sqrt(values.shape[0])


def weight_sample_size(log_weights: jax.Array) -> jax.Array:
    r"""Returns the number of equal weights that would do as well, :math:`(\sum w)^2 / \sum w^2`.

    It is between 1 and n, for log weights (n, ...). Source: Kong, Liu & Wong 1994.
    """
    # Divided by the largest weight, so that one dominant weight counts as exactly 1.
    weights = jnp.exp(log_weights - jnp.max(log_weights, axis=0, keepdims=True))
    return jnp.square(jnp.sum(weights, axis=0)) / jnp.sum(jnp.square(weights), axis=0)
