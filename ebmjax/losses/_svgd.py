"""The generative loss of SVGD-in-JEM, corrected and as printed."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_positive
from ebmjax._precision import as_floats
from ebmjax.types import Metrics

VARIANTS = ("corrected", "literal")


def svgd_generative_loss(
    positive_log_density: Any,
    negative_log_density: Any,
    *,
    smoothing: Any,
    variant: str = "corrected",
) -> tuple[jax.Array, Metrics]:
    r"""Returns minus the log likelihood of :math:`f / \alpha`, bounded by the particles' law q.

    .. math::
        L = -\overline{f(x^+)} / \alpha + \overline{f(x^-)} / \alpha + H_q

    - "corrected": :math:`H_q` is the entropy of the particles. It does not depend on the parameters
      and is left out. The gradient is that of contrastive divergence, divided by :math:`\alpha`.
    - "literal": the thesis's estimate :math:`H_q = -\overline{f(x^-)} / \alpha`. It cancels the
      negative phase exactly: :math:`L = -\overline{f(x^+)} / \alpha`, unbounded below. It
      reproduces the thesis; do not train with it.

    Args:
      positive_log_density: f of the data, shape (N,), nats.
      negative_log_density: f of the particles, shape (M,). Positions are constants, values are not:
        the gradient flows through both arguments.
      smoothing: :math:`\alpha`, positive, a scalar, may be traced. Draw the particles from :math:`f
        / \alpha`, that is at this temperature.
      variant: "corrected" or "literal".

    Returns:
      The scalar loss, float32 or float64 as the log densities are, and metrics:
      ``positive_log_density`` and ``negative_log_density`` (means of f), ``log_density_gap`` (their
      difference) and ``smoothing``.

    Source: SVGD-in-JEM thesis, Eqs. 3.5 and 3.8.

    Example:
      >>> data, particles = jnp.array([4.0]), jnp.array([1.0, 3.0])
      >>> float(svgd_generative_loss(data, particles, smoothing=2.0)[0])
      -1.0
      >>> float(svgd_generative_loss(data, particles, smoothing=2.0, variant="literal")[0])
      -2.0
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}.")
    check_positive("smoothing", smoothing, is_scalar=True)
    positive = jnp.mean(as_floats("positive_log_density", positive_log_density))
    negative = jnp.mean(as_floats("negative_log_density", negative_log_density))
    dtype = jnp.result_type(positive, negative)
    smoothing = jnp.asarray(smoothing, dtype)
    metrics = {
        "positive_log_density": positive,
        "negative_log_density": negative,
        "log_density_gap": positive - negative,
        "smoothing": smoothing,
    }
    entropy = -negative / smoothing if variant == "literal" else 0.0
    return -positive / smoothing + (negative / smoothing + entropy), metrics
