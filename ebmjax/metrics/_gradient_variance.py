"""Learning-gradient variance: the thesis's, over coordinates, and over repeats."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax._axes import everywhere
from ebmjax._checks import check_floating, leading_size
from ebmjax.types import PyTree


class GradientVariance(NamedTuple):
    """Spread of gradient estimates: scalars, from n repeats of d parameters.

    Attributes:
      variance: unbiased variance across repeats, averaged over parameters; squared units of the
        gradient.
      mean_norm: Euclidean norm of the mean gradient. Its expected square exceeds the true
        gradient's by ``variance * d / n``.
      signal_to_noise: squared norm of the true gradient over the summed variance of one repeat,
        no units. The mean of k repeats has k times this ratio.
    """

    variance: jax.Array
    mean_norm: jax.Array
    signal_to_noise: jax.Array


def coordinate_gradient_variance(gradients: PyTree) -> jax.Array:
    r"""Returns the thermodynamic-integration thesis's learning-gradient variance of one gradient.

    .. math::
        \frac1d \sum_{j=1}^d (g_j - \bar g)^2, \qquad \bar g = \frac1d \sum_j g_j

    over all d coordinates of all leaves together. It compares coordinates of one gradient. So an
    exact gradient has such a variance, and noise that is equal in all coordinates has none. To
    measure noise, see ``gradient_variance``.

    Args:
      gradients: any PyTree of floating-point arrays; the thesis's is the pair of the prior's and
        the generator's gradient.

    Returns:
      Scalar, in squared units of the gradient.

    Source: thermodynamic-integration thesis, Figures 3-5, whose published code divides by d.
    """
    check_floating("gradients", gradients)
    gradients = jax.tree.map(_at_least_single, gradients)
    size = optax.tree.size(gradients)
    origin = next(leaf.ravel()[0] for leaf in jax.tree.leaves(gradients) if leaf.size)
    gradients = jax.tree.map(lambda g: jnp.asarray(g - origin), gradients)
    mean = optax.tree.sum(gradients) / size
    return optax.tree.norm(jax.tree.map(lambda g: g - mean, gradients), squared=True) / size


def gradient_variance(stacked_gradients: PyTree) -> GradientVariance:
    r"""Returns the variance of a gradient estimator over independent minibatches and chains.

    With mean :math:`\bar g_j` and unbiased variance :math:`s_j^2` of parameter j over n repeats,
    the signal-to-noise ratio is :math:`(|\bar g|^2 - \frac1n \sum_j s_j^2) / \sum_j s_j^2`: the
    subtraction removes what noise adds to :math:`|\bar g|^2`. A gradient far below the noise gives
    a ratio around 0, never below -1/n. Repeats that all agree give infinity, or NaN at zero.

    Args:
      stacked_gradients: any PyTree of floating-point arrays, each ``(repeats, ...)``: at least 2
        repeats at the same parameters that share neither data nor keys.

    Source: the ratio is the inverse of the simple noise scale of McCandlish, Kaplan & Amodei
    2018, arXiv:1812.06162, section 2.2 and appendix A.1.
    """
    check_floating("stacked_gradients", stacked_gradients)
    repeats = leading_size("stacked_gradients", stacked_gradients)
    if repeats < 2:
        raise ValueError(
            f"stacked_gradients must hold at least 2 repeats on its leading axis, got {repeats}: "
            "one gradient alone shows no variance. See coordinate_gradient_variance for one."
        )
    gradients = everywhere(jax.tree.map(_at_least_single, stacked_gradients))
    # Relative to the first repeat: exactly 0 if the repeats agree.
    offsets = jax.tree.map(lambda g: jnp.asarray(g - g[:1]), gradients)
    mean = jax.tree.map(lambda g, offset: g[0] + jnp.mean(offset, axis=0), gradients, offsets)
    variance = jax.tree.map(lambda offset: jnp.var(offset, axis=0, ddof=1), offsets)
    squared_norm = optax.tree.norm(mean, squared=True)
    summed_variance = jnp.asarray(optax.tree.sum(variance))
    return GradientVariance(
        variance=summed_variance / optax.tree.size(variance),
        mean_norm=jnp.sqrt(squared_norm),
        signal_to_noise=(squared_norm - summed_variance / repeats) / summed_variance,
    )


def _at_least_single(gradient: Any) -> Any:
    """Half-precision gradients are summed in float32; NumPy's float64 stay what they are."""
    own = gradient if isinstance(gradient, jax.Array) else np.asarray(gradient)
    return own.astype(jnp.promote_types(own.dtype, jnp.float32))
