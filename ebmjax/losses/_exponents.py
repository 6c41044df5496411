"""Splits a density between the sampler and the weights, for the robust objective."""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_positive, check_scalar


def check_beta(beta: Any, allow_negative: bool) -> None:
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


def beta_sampling_temperature(
    beta: Any, *, output_scale: Any = 1.0, allow_negative: bool = False
) -> jax.Array:
    r"""Returns the temperature at which to draw the robust objective's negatives from f.

    The sampler's target is :math:`(1 - \beta)\, o f`, hence :math:`T = 1 / ((1 - \beta)\, o)`: give
    it to a sampler's ``temperature=`` or to ``ebmjax.densities.tempered``.

    Args:
      beta: share of the density that the weights carry, in [0, 1); may be traced.
      output_scale: o, the factor that turns the network's f into the model's log density.
      allow_negative: admits beta below 0, for samplers known to sample too high a density.

    Source: robust-objective paper, section 3 and appendix M.2.

    Example:
      >>> float(beta_sampling_temperature(0.5))
      2.0
    """
    check_beta(beta, allow_negative)
    check_positive("output_scale", output_scale, is_scalar=True)
    return 1.0 / ((1.0 - jnp.asarray(beta)) * output_scale)


def beta_from_exponents(
    sampling_exponent: Any, reweighting_exponent: Any
) -> tuple[jax.Array, jax.Array]:
    r"""Returns ``(beta, output_scale)`` for negatives from :math:`e^{a f}` with weights :math:`e^{b
    f}`.

    a and b need not add up to 1: the update trains the model :math:`p \propto e^{k f}` with
    :math:`k = a + b`. It is the robust objective with :math:`\beta = b / k` and output scale
    :math:`o = k`, since :math:`a = k (1 - \beta)` and :math:`b = k \beta`.

    Args:
      sampling_exponent: a, positive: the inverse temperature of the sampler's target.
      reweighting_exponent: b, the exponent of the weights; above -a. Below 0 it gives a negative
        beta, for which the loss needs ``allow_negative=True``.

    Source: robust-objective paper, appendix G.1.

    Example:
      >>> beta, output_scale = beta_from_exponents(1.0, 3.0)  # exact sampling, extra weighting
      >>> float(beta), float(output_scale)
      (0.75, 4.0)
    """
    check_scalar("sampling_exponent", sampling_exponent)
    check_scalar("reweighting_exponent", reweighting_exponent)
    check_positive("sampling_exponent", sampling_exponent)
    total = sampling_exponent + reweighting_exponent
    check_positive("sampling_exponent + reweighting_exponent", total)
    output_scale = 1.0 * jnp.asarray(total)
    return reweighting_exponent / output_scale, output_scale
