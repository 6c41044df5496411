"""The log evidence from means along the powers: the trapezium rule and its exact correction."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_whole_ladder
from ebmjax.evidence._schedule import trapezium_weights
from ebmjax.evidence._weights import Estimate, mean_error


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

    Example:
      >>> float(log_evidence(jax.numpy.array([-3.0, -1.0]), jax.numpy.array([0.0, 1.0])))
      -2.0

    Source: Calderhead & Girolami 2009; thermodynamic-integration thesis, Eq. 19 and 22.
    """
    check_whole_ladder(powers)
    shape, num_powers = jnp.shape(mean_log_likelihoods), jnp.shape(powers)[0]
    if shape[:1] != (num_powers,):
        raise ValueError(
            "mean_log_likelihoods must have one leading entry per power, shape "
            f"({num_powers}, ...), got {shape}."
        )
    if (kl_forward is None) != (kl_backward is None):
        missing = "kl_forward" if kl_forward is None else "kl_backward"
        raise ValueError(
            "kl_forward and kl_backward come together, because the exact correction is their "
            f"difference; {missing} is missing."
        )
    for name, kl in {"kl_forward": kl_forward, "kl_backward": kl_backward}.items():
        if kl is not None and jnp.shape(kl) != (num_powers - 1, *shape[1:]):
            raise ValueError(
                f"{name} must have one entry per interval, shape {(num_powers - 1, *shape[1:])}, "
                f"got {jnp.shape(kl)}."
            )
    energies = jnp.asarray(mean_log_likelihoods)
    # A product and a sum, because accelerators round matrix products to TF32.
    weights = trapezium_weights(powers).reshape(-1, *[1] * (energies.ndim - 1))
    trapezium = jnp.sum(weights * energies, axis=0)
    if kl_forward is None or kl_backward is None:
        return trapezium
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

    with trapezium weights w and the spread over the n chains c. It is the error of the trapezium
    part alone. It contains neither the error of divergences fitted to the same chains nor the
    quadrature error of the rule without them.

    Args:
      log_likelihoods: of the chains at every power, in nats with the likelihood's constant, shape
        (num_powers, chains, ...); trailing axes, such as one per observation, are kept.
      powers: shape (num_powers,), increasing from 0 to 1.
      kl_forward, kl_backward, kl_weight: as in ``log_evidence``.

    Returns:
      Shape (...). The standard error assumes chains that are independent of each other. A chain
      that was annealed, and so remembers the powers below, must have the same place at every power.

    Example:
      >>> chains = jnp.array([[-4.0, -2.0], [-1.0, -1.0]])
      >>> estimate = thermodynamic_log_evidence(chains, jnp.array([0.0, 1.0]))
      >>> float(estimate.value), float(estimate.standard_error)
      (-2.0, 0.5)
    """
    check_chains(log_likelihoods, powers)
    log_likelihoods = jnp.asarray(log_likelihoods)
    value = log_evidence(
        jnp.mean(log_likelihoods, axis=1),
        powers,
        kl_forward=kl_forward,
        kl_backward=kl_backward,
        kl_weight=kl_weight,
    )
    weights = trapezium_weights(powers).reshape(-1, *[1] * (log_likelihoods.ndim - 1))
    return Estimate(value, mean_error(jnp.sum(weights * log_likelihoods, axis=0)))


def check_chains(log_likelihoods: jax.Array, powers: jax.Array) -> None:
    """Raises ValueError unless ``log_likelihoods`` holds two or more chains for every power."""
    check_whole_ladder(powers)
    shape, num_powers = jnp.shape(log_likelihoods), jnp.shape(powers)[0]
    if len(shape) < 2 or shape[0] != num_powers or shape[1] < 2:
        raise ValueError(
            "log_likelihoods must hold at least two chains for every power, shape "
            f"({num_powers}, chains, ...), got {shape}. Means over the chains go to log_evidence."
        )
