"""Objectives that compare the data with samples of chains."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax

from ebmjax import losses
from ebmjax._ranges import (
    BELOW_ONE,
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    one_of,
    optional,
)
from ebmjax.learning import Density, Samples
from ebmjax.types import Key, Metrics


def contrastive_divergence(
    key: Key, model: Density, batch: Samples, negatives: Samples
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.contrastive_divergence_loss``: the data's log density up, samples' down."""
    del key, model
    return losses.contrastive_divergence_loss(-batch.log_density, -negatives.log_density)


def improved(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    kl_weight: Annotated[Any, NOT_NEGATIVE] = 1.0,
    entropy_weight: Annotated[Any, NOT_NEGATIVE] = 0.3 / 64,
    live_steps: Annotated[int, COUNT] = 1,
    num_references: Annotated[int, COUNT] = 100,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.improved_contrastive_divergence_loss``, for negatives of live chains.

    Args:
      kl_weight: weight of the KL term
      entropy_weight: weight of the entropy of the negatives
      live_steps: last steps that are differentiated
      num_references: buffered images among which neighbours are sought
    """
    del key, model, live_steps, num_references  # which the negatives are drawn by
    return losses.improved_contrastive_divergence_loss(
        -batch.log_density,
        -negatives.log_density,
        -negatives.live,
        negatives.entropy,
        kl_weight=kl_weight,
        entropy_weight=entropy_weight,
    )


def beta(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    step: Any = 0,
    total_steps: int = 0,
    beta: Annotated[Any, BELOW_ONE] = 0.0,
    beta_start: Annotated[Any, optional(BELOW_ONE)] = None,
    allow_negative: Annotated[bool, FLAG] = False,
    beta_variant: Annotated[
        str, one_of("default", "no_positive", "batch_corrected", "true_objective")
    ] = "default",
    output_scale: Annotated[Any, POSITIVE] = 1.0,
    max_positive_weight: Annotated[Any, optional(PROBABILITY)] = None,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.beta_objective_loss``: samples count by their density to the power of beta.

    Args:
      beta: exponent of the robust objective, at the end of the run
      beta_start: beta at the start, linear to loss.beta; None: constant
      allow_negative: allow a beta below 0
      beta_variant: form of the robust objective
      output_scale: factor on the log density inside the robust objective
      max_positive_weight: updates whose data have a larger mean weight are skipped; None: none are
    """
    del key, model, max_positive_weight  # which the run looks at
    exponent = scheduled_beta(beta, beta_start, step, total_steps)
    value, metrics = losses.beta_objective_loss(
        batch.log_density,
        negatives.log_density,
        beta=exponent,
        variant=beta_variant,
        output_scale=output_scale,
        allow_negative=allow_negative,
    )
    positive, negative = jnp.mean(batch.f), jnp.mean(negatives.f)
    return value, {
        **metrics,
        "positive_log_density": positive,
        "negative_log_density": negative,
        "log_density_gap": positive - negative,
        "beta": jnp.float32(exponent),
    }


def scheduled_beta(beta: Any, beta_start: Any, step: Any, total_steps: int) -> Any:
    """Returns beta at a step: constant, or linear from ``beta_start``."""
    if beta_start is None:
        return beta
    return optax.linear_schedule(beta_start, beta, total_steps)(step)


def svgd(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    smoothing: Any,
    svgd_variant: Annotated[str, one_of("corrected", "literal")] = "corrected",
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.svgd_generative_loss``, of SVGD-in-JEM.

    Args:
      svgd_variant: form of the loss of SVGD
    """
    del key, model
    return losses.svgd_generative_loss(
        batch.f, negatives.f, smoothing=smoothing, variant=svgd_variant
    )
