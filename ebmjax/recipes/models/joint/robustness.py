"""The refinement of attacked images by the run's sampler."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.learning import ANY_CLASS, ChainPlan
from ebmjax.networks import Network
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.chains import DensitiesOf, move
from ebmjax.recipes.models.joint.chains import Trained
from ebmjax.types import Key

NORMS = ("linf", "l2")

Refine = Callable[[Trained, Key, jax.Array], jax.Array]
"""``refine(model, key, images) -> images``."""


def refinement(plan: ChainPlan, densities_of: DensitiesOf, num_steps: int) -> Refine:
    """Returns the function that moves images by ``num_steps`` of the plan's sampler."""

    def refine(model: Trained, key: Key, images: jax.Array) -> jax.Array:
        labels = jnp.full(len(images), ANY_CLASS)
        return move(key, plan, densities_of, model, images, labels, num_steps)

    return refine


def check_derivative(refine: Refine, network: Network, shape: tuple[int, ...]) -> None:
    """Raises ConfigError if ``refine`` has no derivative for images of ``shape``; runs nothing."""

    def summed(images: jax.Array, model: Trained, key: Key) -> jax.Array:
        return jnp.sum(refine(model, key, images))

    key, images = jax.random.key(0), jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    params, statistics = jax.eval_shape(network.init, key, images)
    smoothing: Any = jax.ShapeDtypeStruct((), jnp.float32)
    model = Trained(params, statistics, smoothing, {})
    try:
        jax.eval_shape(jax.grad(summed), images, model, key)
    except ValueError as error:
        if "Reverse-mode" not in str(error):
            raise
        raise ConfigError(
            "config.eval.refine_gradients holds 'full', which needs the derivative of the run's "
            "sampler, and a loop of unknown length in it has none. Set "
            "--config.eval.refine_gradients=bpda."
        ) from error
