"""Contrastive divergence that also trains where its short chains end."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_not_negative, check_scalar
from ebmjax._precision import as_floats
from ebmjax.losses._contrastive_divergence import contrastive_divergence_loss
from ebmjax.types import Metrics


def improved_contrastive_divergence_loss(
    positive_energy: Any,
    negative_energy: Any,
    live_energy: Any,
    live_entropy: Any,
    *,
    energy_l2: Any = 0.0,
    kl_weight: Any = 1.0,
    entropy_weight: Any,
) -> tuple[jax.Array, Metrics]:
    r"""Returns contrastive divergence plus the divergence from the chains' law to the model.

    .. math::
        L = \overline{E_\theta(x^+)} - \overline{E_\theta(x^-)}
            + \alpha \big( \overline{E_\theta(x^+)^2} + \overline{E_\theta(x^-)^2} \big)
            + w_{KL}\, \overline{E_{\bar\theta}(x_\theta)} - w_H\, \hat H(x_\theta)

    A bar over :math:`\theta` marks parameters held constant. :math:`x_\theta` are live samples:
    ends of chains that depend on the parameters through the scores of their last steps. :math:`x^-`
    are the same points as constants.

    At :math:`w_{KL} = w_H = 1` the last two terms have the derivative of
    :math:`KL(q_\theta \| p_{\bar\theta})`, with :math:`q_\theta` the law of the ends. For
    :math:`p \propto e^{-E}` contrastive divergence leaves **minus** this derivative out of
    Hinton's gradient. This function adds it, as Du et al. do: it asks for parameters under which
    short chains come close to the model. See docs/losses.md.

    A sampler with noise scale s and step e has temperature :math:`T = s^2 / (2 e)`, to which
    :math:`w_H = T w_{KL}` belongs. Du et al.'s code takes 0.3 times the mean log distance, which is
    :math:`w_H = 0.3 / d` in d dimensions.

    Args:
      positive_energy: energies of the data, shape (N,), nats.
      negative_energy: energies of the negatives, shape (M,), with the parameters being trained
        and ``stop_gradient`` on the negatives.
      live_energy: energies of live samples, shape (K,), with ``stop_gradient`` on the parameters
        and not on the samples. ``ebmjax.learning.run_live_chains`` makes them.
      live_entropy: scalar in nats, an estimate of the live samples' entropy, differentiable in
        them: ``nearest_neighbour_entropy(samples, references)`` with references from the replay
        buffer.
      energy_l2: weight :math:`\alpha` of the squared energies, at least 0.
      kl_weight: :math:`w_{KL}`, at least 0; 0 for plain contrastive divergence.
      entropy_weight: :math:`w_H`, at least 0. It has no default, because its size depends on the
        dimension.

    Returns:
      The scalar loss, float32 or float64 as the energies are, and the metrics of
      ``contrastive_divergence_loss``. Added are "live_energy" and "live_entropy" (mean and value as
      given) and "kl_terms", the loss's last two terms. The loss's value says little: the live
      samples' energy equals the negatives' and cancels.

    Source: Du et al. 2021, section 3; sampling-approaches thesis, section 3.2.3; Hinton 2002,
    Eq. 5.

    Example:
      >>> energies = jnp.array([1.0, 3.0])
      >>> loss, metrics = improved_contrastive_divergence_loss(
      ...     energies, energies + 1, energies + 1, 2.0, entropy_weight=0.25)
      >>> float(loss), float(metrics["kl_terms"])
      (1.5, 2.5)
    """
    for name, weight in {"kl_weight": kl_weight, "entropy_weight": entropy_weight}.items():
        check_not_negative(name, weight, is_scalar=True)
    check_scalar("live_entropy", live_entropy)
    loss, metrics = contrastive_divergence_loss(
        positive_energy, negative_energy, energy_l2=energy_l2
    )
    energy = jnp.mean(as_floats("live_energy", live_energy))
    entropy = jnp.asarray(live_entropy, jnp.result_type(energy, live_entropy))
    kl_terms = (kl_weight * energy - entropy_weight * entropy).astype(entropy.dtype)
    return loss + kl_terms, {
        **metrics,
        "live_energy": energy,
        "live_entropy": entropy,
        "kl_terms": kl_terms,
    }
