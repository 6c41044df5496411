"""The variance of a latent EBM's learning gradient: of all of it, and of each network's part.

An estimator that leaves the prior alone has exact zeros for the prior's coordinates, and they thin
the variance of all coordinates: estimators are to be compared by the generator's part."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ebmjax import metrics
from ebmjax.latent import LatentParams


def over_coordinates(gradient: LatentParams) -> dict[str, jax.Array]:
    """The thesis's, of one gradient; scalars, in squared units of the gradient."""
    return {
        f"{name}coordinate_gradient_variance": metrics.coordinate_gradient_variance(part)
        for name, part in _parts(gradient).items()
    }


def over_batches(gradients: Sequence[LatentParams]) -> dict[str, jax.Array]:
    """The statistical one, and the means over ``gradients`` of the thesis's.

    Args:
      gradients: two at least, at the same parameters, of independent batches and chains.
    """
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *gradients)
    measured = {name: metrics.gradient_variance(part) for name, part in _parts(stacked).items()}
    each = jax.vmap(over_coordinates)(stacked)
    return {
        **{f"mean_{name}": values.mean() for name, values in each.items()},
        **{f"{name}gradient_variance": one.variance for name, one in measured.items()},
        "gradient_mean_norm": measured[""].mean_norm,
        "gradient_signal_to_noise": measured[""].signal_to_noise,
    }


def _parts(gradient: LatentParams) -> dict[str, object]:
    """The gradient and its parts, by the prefix of their numbers' names."""
    return {"": gradient, "prior_": gradient.prior, "generator_": gradient.generator}
