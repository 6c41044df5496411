"""The robust objective: negatives weighted by their own density, to the power beta."""

import math
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_positive, check_scalar
from ebmjax._precision import as_floats
from ebmjax.types import Metrics

VARIANTS = ("default", "no_positive", "batch_corrected", "true_objective")

# A smaller exponent acts as 0 in float32: products with it would be subnormal.
SMALLEST_EXPONENT = 1e-30


def beta_objective_loss(
    positive_log_density: Any,
    negative_log_density: Any,
    *,
    beta: Any,
    variant: str = "default",
    output_scale: Any = 1.0,
    allow_negative: bool = False,
) -> tuple[jax.Array, Metrics]:
    r"""Contrastive divergence whose negatives count by :math:`w_j \propto e^{b f(x^-_j)}`.

    The model's log density is :math:`o f`. The negatives come from a sampler of :math:`(1 -
    \beta)\, o f`, at temperature :math:`1 / ((1 - \beta)\, o)`. The weights make up for the rest,
    with exponent :math:`b = \beta o`. With
    :math:`w^+_i = e^{b f(x^+_i)} / (e^{b f(x^+_i)} + \sum_j e^{b f(x^-_j)})` and
    :math:`g_i = \nabla f(x^+_i) - \sum_j w_j \nabla f(x^-_j)`, minus the gradient
    of the loss is, by ``variant``,

    .. math::
        \text{default (Eq. 8)} \quad & \tfrac1N \sum_i (1 - w^+_i)\, g_i \\
        \text{no\_positive (Eq. 7)} \quad & \tfrac1N \sum_i g_i \\
        \text{batch\_corrected (Eq. 33)} \quad & (1 - \overline{w^+})\, \tfrac1N \sum_i g_i \\
        \text{true\_objective (Eq. 34)} \quad & \tfrac12 \sum_{h = A, B}
            (1 - \overline{w^+}_{\text{other half}})\, \tfrac2N \sum_{i \in h} g_i

    The first two are gradients of losses (docs/losses.md). The others return the default's value
    with the gradient above, so do not differentiate them twice. At ``beta`` 0, and only there,
    every variant is exactly contrastive divergence (Alg. 1).

    The weights compare the samples of one call. Shards that call it separately get other weights
    than the whole batch, unless the gradient function's ``batch_axis`` joins them.

    Loss and gradient are in units of f, not of o f, so ``output_scale`` does not weigh this term
    against others. JEM's code, and the paper's, use their 20000 in this way (appendix M.2).
    Multiply the loss by o for the objective of o f.

    Args:
      positive_log_density: f of the data, shape (N,), nats. "true_objective" compares the two
        halves, so N must be even and the order random.
      negative_log_density: f of the samples, shape (M,). Positions are constants, values are not:
        the gradient flows through both arguments.
      beta: share of the density that the weights carry, in [0, 1); a scalar, may be traced.
      variant: one of the four names above.
      output_scale: o, positive. For an exponent b = beta o (the paper's beta*), pass ``beta=b /
        o``.
      allow_negative: admits beta below 0, for samplers that sample too high a density.

    Returns:
      The scalar loss, float32 or float64 as the log densities are, and metrics. ``objective`` is
      the loss without its constant log(M + 1) / b, comparable across beta. ``positive_log_density``
      and ``negative_log_density`` are means of f, ``log_density_gap`` their difference.
      ``positive_weight`` is the mean w+: near 1, no negative can compete and the batch teaches
      nothing. ``effective_sample_fraction`` is 1 / (M sum_j w_j^2), in [1/M, 1];
      ``effective_positive_fraction`` is the same for the positives' weights 1 - w+_i, in [1/N, 1].

    Source: "Energy-based model training objective robust to inaccurate SGLD samples".

    Example:
      >>> data, samples = jnp.array([2.0, 1.0]), jnp.array([1.5, -80.0])
      >>> _, metrics = beta_objective_loss(data, samples, beta=0.5)
      >>> round(float(metrics["effective_sample_fraction"]), 3)  # the second sample is ignored
      0.5
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}.")
    _check_beta(beta, allow_negative)
    check_positive("output_scale", output_scale, is_scalar=True)
    positive = as_floats("positive_log_density", positive_log_density)
    negative = as_floats("negative_log_density", negative_log_density)
    if variant == "true_objective" and positive.size % 2:
        raise ValueError(
            "positive_log_density must have an even count for variant='true_objective', which "
            f"halves it, got {positive.size}. Drop one example."
        )
    dtype = jnp.result_type(positive, negative)
    exponent = jnp.asarray(beta * output_scale, dtype)
    excesses = _soft_mean(negative, jnp.ones(negative.size, dtype), exponent) - positive
    odds = exponent * excesses + math.log(negative.size)
    kept = jax.nn.sigmoid(odds)  # 1 - w+

    if variant == "no_positive":
        loss = objective = jnp.mean(excesses)
    else:
        objective = _default_objective(excesses, exponent, negative.size)
        loss = objective + _offset(exponent, negative.size)
    if variant in ("batch_corrected", "true_objective"):
        num_parts = 2 if variant == "true_objective" else 1
        rescaled = _rescale_excesses(excesses, kept, exponent, num_parts)
        loss = jax.lax.stop_gradient(loss) + (rescaled - jax.lax.stop_gradient(rescaled))
    return loss, {
        "objective": objective,
        "positive_log_density": jnp.mean(positive),
        "negative_log_density": jnp.mean(negative),
        "log_density_gap": jnp.mean(positive) - jnp.mean(negative),
        "positive_weight": 1.0 - jnp.mean(kept),
        "effective_sample_fraction": _effective_fraction(exponent * negative),
        "effective_positive_fraction": _effective_fraction(jax.nn.log_sigmoid(odds)),
    }


def _check_beta(beta: Any, allow_negative: bool) -> None:
    """Raises ValueError unless a concrete ``beta`` lies in [0, 1), or below 0 if allowed."""
    check_scalar("beta", beta)
    if isinstance(beta, jax.core.Tracer):
        return
    low = -np.inf if allow_negative else 0.0
    # It is used as float32: what rounds to 1 there is 1.
    if not (np.isfinite(beta) and low <= beta and np.float32(beta) < 1):
        hint = "" if allow_negative else "; allow_negative=True admits values below 0"
        raise ValueError(
            f"beta must lie in [0, 1), got beta={beta}: at 1 the sampler would target a flat "
            f"density{hint}. An exponent that already includes the output scale goes in divided "
            "by it, with output_scale= set."
        )


def _effective_fraction(log_weights: jax.Array) -> jax.Array:
    """Returns the effective fraction of n weights: 1 if all are equal, 1/n if only one counts."""
    weights = jax.nn.softmax(log_weights)
    return 1.0 / (weights.size * jnp.sum(jnp.square(weights)))


def _is_zero(exponent: jax.Array) -> jax.Array:
    return jnp.abs(exponent) < SMALLEST_EXPONENT


def _soft_mean(values: jax.Array, counts: jax.Array, exponent: jax.Array) -> jax.Array:
    """Returns ``log(sum_k c_k exp(b v_k) / sum_k c_k) / b`` over the first axis; at b = 0 the mean.

    Its gradient is the normalised weights ``c_k exp(b v_k)``. In this form its error is a few eps
    times the spread of the values, however small b is.
    """
    b = jnp.where(_is_zero(exponent), 1.0, exponent)
    top = jnp.where(b > 0, jnp.max(values, axis=0), jnp.min(values, axis=0))
    top = jax.lax.stop_gradient(top)
    powers = b * (values - jnp.expand_dims(top, 0))
    excess = jnp.average(jnp.expm1(powers), axis=0, weights=counts)
    total = jnp.average(jnp.exp(powers), axis=0, weights=counts)
    log_mean = jnp.where(excess > -0.5, jnp.log1p(excess), jnp.log(total))
    plain = jnp.average(values, axis=0, weights=counts)
    return jnp.where(_is_zero(exponent), plain, top + log_mean / b)


def _default_objective(excesses: jax.Array, exponent: jax.Array, num_negatives: int) -> jax.Array:
    """Returns Eq. 8's loss without its constant; each positive also counts among the negatives."""
    # Uses differences only, so both phases get exactly the same factor 1 - w+, even if it is tiny:
    # Adam rescales tiny gradients.
    pairs = jnp.stack([jnp.zeros_like(excesses), excesses])
    joined = _soft_mean(pairs, jnp.array([1.0, num_negatives], excesses.dtype), exponent)
    return jnp.mean(jnp.where(_is_zero(exponent), excesses, joined))


def _offset(exponent: jax.Array, num_negatives: int) -> jax.Array:
    """Returns the constant ``log(M + 1) / b`` between Alg. 1's loss and a mean; 0 at b = 0."""
    is_zero = _is_zero(exponent)
    return jnp.where(is_zero, 0.0, math.log1p(num_negatives) / jnp.where(is_zero, 1.0, exponent))


def _rescale_excesses(
    excesses: jax.Array, kept: jax.Array, exponent: jax.Array, num_parts: int
) -> jax.Array:
    """Returns Eq. 33, or Eq. 34 in two parts, each scaled by the other's 1 - w+ as a constant."""
    kept = jnp.where(_is_zero(exponent), 1.0, jax.lax.stop_gradient(kept))
    scales = jnp.flip(jnp.mean(kept.reshape(num_parts, -1), axis=1))
    return jnp.mean(scales * jnp.mean(excesses.reshape(num_parts, -1), axis=1))
