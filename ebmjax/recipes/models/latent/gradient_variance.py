"""Variance of a latent EBM's learning gradient, whole and by network.

An estimator that does not train the prior has exact zeros for the prior's coordinates, which lower
the variance of all. So compare estimators by the generator's part."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from ebmjax import metrics
from ebmjax.latent import LatentParams


def over_coordinates(gradient: LatentParams) -> dict[str, jax.Array]:
    """Returns the thesis's variance of one gradient: scalars, in squared units of the gradient."""
    return {
        f"{name}coordinate_gradient_variance": metrics.coordinate_gradient_variance(part)
        for name, part in _parts(gradient).items()
    }


def over_batches(gradients: Sequence[LatentParams]) -> dict[str, jax.Array]:
    """Returns the statistical variance, and means over ``gradients`` of the thesis's.

    Args:
      gradients: at least two, at the same parameters, from independent batches and chains.
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
    """Returns the gradient and its parts, by the prefix of their numbers' names."""
    return {"": gradient, "prior_": gradient.prior, "generator_": gradient.generator}
