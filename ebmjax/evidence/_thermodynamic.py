"""Log evidence from chains at powers: the trapezium rule, its exact correction, stepping stones."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ebmjax._checks import check_powers
from ebmjax.evidence._weights import Estimate, mean_error


def trapezium_weights(powers: jax.Array) -> jax.Array:
    """Returns weights w such that ``sum_i w_i f(t_i)`` is the trapezium rule for the integral of f.

    ``powers`` are strictly increasing, of shape (num_powers,) with at least two.
    """
    check_powers(powers)
    half_widths = jnp.diff(jnp.asarray(powers)) / 2.0
    return jnp.pad(half_widths, (0, 1)) + jnp.pad(half_widths, (1, 0))


def log_evidence(
    mean_log_likelihoods: jax.Array,
    powers: jax.Array,
    *,
    kl_forward: jax.Array | None = None,
    kl_backward: jax.Array | None = None,
    kl_weight: Any = 1.0,
) -> jax.Array:
    r"""Returns ``log p(x)`` by thermodynamic integration.

    .. math::
        \log p(x) = \sum_{i=1}^{N_t} \left\{ \frac{(t_i - t_{i-1})(E_{i-1} + E_i)}{2}
            + \eta\, \frac{KL(p_{i-1} \| p_i) - KL(p_i \| p_{i-1})}{2} \right\}

    with :math:`E_i` the mean log likelihood under the power posterior :math:`p_i`. With both
    divergences and :math:`\eta = 1` it is an identity for every schedule. Without them it is the
    trapezium rule, whose error falls as the intervals narrow. The thesis prints a plus between the
    divergences (Eq. 19 and 22), which is not an identity.

    Args:
      mean_log_likelihoods: :math:`E_i` in nats, shape (num_powers, ...), the likelihood's
        constant included; trailing axes, such as one per observation, are kept.
      powers: shape (num_powers,), increasing from 0 to 1.
      kl_forward: :math:`KL(p_i \| p_{i+1})` for i = 0, 1, ..., shape (num_powers - 1, ...).
      kl_backward: :math:`KL(p_{i+1} \| p_i)`, in the shape of ``kl_forward``; both or neither.
      kl_weight: :math:`\eta`; other values than 1 are the thesis's bias control.

    Returns:
      Shape (...), in nats.

    Source: Calderhead & Girolami 2009; thermodynamic-integration thesis, Eq. 19 and 22.
    """
    check_powers(powers, is_whole=True)
    shape, num_powers = jnp.shape(mean_log_likelihoods), jnp.shape(powers)[0]
    if shape[:1] != (num_powers,):
        raise ValueError(
            "mean_log_likelihoods must have one leading entry per power, shape "
            f"({num_powers}, ...), got {shape}."
        )
    energies = jnp.asarray(mean_log_likelihoods)
    # A product and a sum, because accelerators round matrix products to TF32.
    weights = trapezium_weights(powers).reshape(-1, *[1] * (energies.ndim - 1))
    trapezium = jnp.sum(weights * energies, axis=0)
    if kl_forward is None and kl_backward is None:
        return trapezium
    expected = (num_powers - 1, *shape[1:])
    for name, kl in {"kl_forward": kl_forward, "kl_backward": kl_backward}.items():
        if kl is None or jnp.shape(kl) != expected:
            raise ValueError(
                f"{name} must have one entry per interval, shape {expected}, got "
                f"{kl if kl is None else jnp.shape(kl)}: the correction is a difference of both."
            )
    differences = jnp.asarray(kl_forward) - jnp.asarray(kl_backward)
    return trapezium + kl_weight * 0.5 * jnp.sum(differences, axis=0)


def thermodynamic_log_evidence(
    log_likelihoods: jax.Array,
    powers: jax.Array,
    *,
    kl_forward: jax.Array | None = None,
    kl_backward: jax.Array | None = None,
    kl_weight: Any = 1.0,
) -> Estimate:
    r"""Returns ``log_evidence`` from chains, with its standard error.

    .. math::
        \operatorname{se} = \operatorname{sd}_c\Big(\sum_i w_i l_{ic}\Big) / \sqrt n

    with trapezium weights w and the spread over the n chains c. It contains neither the error of
    divergences fitted to the same chains nor the quadrature error of the rule without them.

    Args:
      log_likelihoods: of the chains at every power, in nats with the likelihood's constant, shape
        (num_powers, chains, ...); trailing axes, such as one per observation, are kept.
      powers: shape (num_powers,), increasing from 0 to 1.
      kl_forward, kl_backward, kl_weight: as in ``log_evidence``.

    Returns:
      Shape (...). The standard error assumes chains that are independent of each other. A chain
      that was annealed must have the same place at every power.
    """
    _check_chains(log_likelihoods, powers)
    log_likelihoods = jnp.asarray(log_likelihoods)
    divergences: Any = {"kl_forward": kl_forward, "kl_backward": kl_backward}
    means = jnp.mean(log_likelihoods, axis=1)
    value = log_evidence(means, powers, **divergences, kl_weight=kl_weight)
    weights = trapezium_weights(powers).reshape(-1, *[1] * (log_likelihoods.ndim - 1))
    return Estimate(value, mean_error(jnp.sum(weights * log_likelihoods, axis=0)))


def stepping_stone_log_evidence(log_likelihoods: jax.Array, powers: jax.Array) -> Estimate:
    r"""Returns ``log p(x)`` by stepping stones: each rung weighs the next.

    .. math::
        \log p(x) = \sum_{i=1}^{N_t} \log E_{p_{i-1}}\!\left[ p(x \mid z)^{t_i - t_{i-1}} \right]

    There is no quadrature. With exact draws, the product of the means is unbiased for p(x) on any
    ladder; the sum of their logs is too low by about half its squared standard error.

    Args:
      log_likelihoods, powers: as in ``thermodynamic_log_evidence``. Those at the last power, t = 1,
        are not used.

    Source: Xie, Lewis, Fan, Kuo & Chen 2011.
    """
    _check_chains(log_likelihoods, powers)
    log_likelihoods = jnp.asarray(log_likelihoods)
    widths = jnp.diff(jnp.asarray(powers)).reshape(-1, *[1] * (log_likelihoods.ndim - 1))
    log_weights = widths * log_likelihoods[:-1]
    log_ratios = logsumexp(log_weights, axis=1) - jnp.log(log_weights.shape[1])
    # Sums each chain's influences, so that chains may remember the powers below.
    influences = jnp.sum(jnp.exp(log_weights - log_ratios[:, None]), axis=0)
    return Estimate(jnp.sum(log_ratios, axis=0), mean_error(influences))


def _check_chains(log_likelihoods: jax.Array, powers: jax.Array) -> None:
    """Raises ValueError unless ``log_likelihoods`` holds two or more chains for every power."""
    check_powers(powers, is_whole=True)
    shape, num_powers = jnp.shape(log_likelihoods), jnp.shape(powers)[0]
    if len(shape) < 2 or shape[0] != num_powers or shape[1] < 2:
        raise ValueError(
            "log_likelihoods must hold at least two chains for every power, shape "
            f"({num_powers}, chains, ...), got {shape}. Means over the chains go to log_evidence."
        )
