"""The refinement of attacked images by the run's sampler."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ebmjax.learning import ANY_CLASS, ChainPlan
from ebmjax.recipes.core.fields import ConfigError
from ebmjax.recipes.images.chains import DensitiesOf, move
from ebmjax.recipes.joint.chains import Trained
from ebmjax.types import Key

NORMS = ("linf", "l2")


def refinement(
    plan: ChainPlan | None, densities_of: DensitiesOf, num_steps: int
) -> Callable[[Trained, Key, jax.Array], jax.Array]:
    """Returns ``(model, key, images) -> images``, ``num_steps`` of the run's sampler further.

    Raises:
      ConfigError: if there is no sampler of single images to refine with.
    """
    if plan is None or plan.is_interacting:
        raise ConfigError(
            f"config.eval.refine_steps={num_steps} needs a run whose chains move each on its "
            "own, because every image must be classified on its own. Set it to 0."
        )

    def refine(model: Trained, key: Key, images: jax.Array) -> jax.Array:
        labels = jnp.full(len(images), ANY_CLASS)
        return move(key, plan, densities_of, model, images, labels, num_steps)

    return refine
