"""Variance of a latent EBM's learning gradient, whole and by network.

Compare estimators by the generator's part: one that does not train the prior has exact zeros for
the prior's coordinates, which lower the variance of all.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax._ranges import TWO_OR_MORE
from ebmjax.latent import LatentParams
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.evidence import keys_of
from ebmjax.types import Key


def gradient_variance(
    key: Key, model: Any, data: Any, *, num_gradients: Annotated[int, TWO_OR_MORE] = 8
) -> Found:
    """Returns the numbers of ``over_batches``; the report's names are without "mean_".

    The minibatches are independent, of training's size, with fresh chains.

    Args:
      num_gradients: gradients whose variance is measured
    """
    del data
    num_examples, size = len(model.examples.index), model.config.train.batch_size
    params = jax.device_get(model.params)  # not on each device, which would all do the same

    def gradient(key: Key) -> LatentParams:
        index_key, chain_key = jax.random.split(key)
        index = jax.random.choice(index_key, num_examples, (size,), replace=False)
        return model.gradient(chain_key, params, (), model.batch(np.asarray(index)))[0]

    keys = jax.random.split(keys_of(key)["gradients"], num_gradients)
    measure = model.program("gradient_variance", lambda: jax.jit(over_batches))
    row = {name: float(value) for name, value in measure([*map(gradient, keys)]).items()}
    return Found({name.removeprefix("mean_"): row[name] for name in row}, row)


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
