"""Keeps the generative term of a joint loss at a set strength beside the classification."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_box, check_fraction, check_positive, check_scalar
from ebmjax._precision import at_least_float32


def adapt_smoothing(
    smoothing: Any,
    generative_norm: Any,
    classification_norm: Any,
    *,
    target_ratio: Any = 1.0,
    rate: Any = 0.1,
    low: Any = 1e-3,
    high: Any = 1e6,
) -> jax.Array:
    r"""Returns the smoothing factor for the next step, from this step's gradient norms.

    .. math::
        \log \alpha' = \log \alpha + \text{rate} \cdot
            \big( \log \frac{\|g_\text{gen}\|}{\|g_\text{clf}\|} - \log \text{target} \big)

    clipped to [low, high]. The generative gradient is proportional to :math:`1 / \alpha`. If the
    gradients do not change otherwise, each step reduces the distance between the log ratio and the
    target's log by the share ``rate``.

    Args:
      smoothing: the current :math:`\alpha`, positive scalar.
      generative_norm: norm of the generative term's gradient as it enters the loss, with :math:`1 /
        \alpha` and any weight; ``optax.tree.norm`` of a gradient PyTree.
      classification_norm: norm of the gradient of the cross-entropy. If either norm is zero,
        negative, infinite or NaN, the smoothing stays.
      target_ratio: the wanted generative : classification ratio, positive.
      rate: in (0, 1]; 1 jumps and follows the noise of every batch.
      low, high: bounds of the result, positive and ordered.

    Returns:
      Scalar, in the dtype of ``smoothing``, float32 at least.

    Source: SVGD-in-JEM thesis, section 5.3.2, asks for it; the rule is this library's.

    Example:
      >>> float(adapt_smoothing(2.0, 8.0, 1.0, target_ratio=2.0, rate=1.0))  # 4 times too strong
      8.0
    """
    given = {"generative_norm": generative_norm, "classification_norm": classification_norm}
    for name, value in given.items():
        check_scalar(name, value)
    numbers = {"smoothing": smoothing, "target_ratio": target_ratio, "low": low, "high": high}
    for name, value in {**numbers, "rate": rate}.items():
        check_positive(name, value, is_scalar=True)
    check_fraction("rate", rate)
    check_box(low, high)

    norms = jnp.stack([at_least_float32(norm) for norm in given.values()])
    is_usable = jnp.all(jnp.isfinite(norms) & (norms > 0))
    # Logs of the norms, not of their ratio, which can overflow.
    logs = jnp.log(jnp.where(is_usable, norms, 1.0))
    error = logs[0] - logs[1] - jnp.log(target_ratio)
    factor = jnp.exp(rate * error)
    moved = smoothing * jnp.where(is_usable, factor, 1.0)
    dtype = jnp.promote_types(jnp.result_type(smoothing), jnp.float32)
    return jnp.clip(moved, low, high).astype(dtype)
