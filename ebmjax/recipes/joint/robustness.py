"""Robust accuracy of a trained model, plain or behind refinement by the run's sampler."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax.learning import ANY_CLASS, ChainPlan
from ebmjax.networks import Network
from ebmjax.recipes.core.fields import Config, ConfigError
from ebmjax.recipes.images.chains import DensitiesOf, move
from ebmjax.recipes.joint.chains import Trained
from ebmjax.types import Key

NORMS = ("linf", "l2")


def robustness(
    key: Key,
    classify: Callable[[Trained, Key, jax.Array], jax.Array],
    model: Trained,
    images: jax.Array,
    labels: jax.Array,
    section: Config,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns accuracy under attack at every radius of both norms, and the protocol.

    The second value maps "<norm>.<radius>" to bool (images,): those that withstood.

    Images are attacked in batches of equal size; the remainder is left out.

    Args:
      key: split over norms and batches.
      classify: see ``classify_fn``.
      model: first argument of ``classify``.
      images: (N, H, W, C) in [-1, 1].
      labels: (N,).
      section: ``config.eval``.
    """
    num_batches = -(-len(images) // section.batch_size)
    size = len(images) // num_batches
    batches = [x[: num_batches * size].reshape(-1, size, *x.shape[1:]) for x in (images, labels)]
    withstood: dict[str, np.ndarray] = {}
    report: dict[str, Any] = {
        "protocol": {
            "attack": "PGD from a random start; an image broken at any step counts as broken",
            "num_images": num_batches * size,
            "num_steps": section.attack_steps,
            "step_size": section.attack_step_size or "2.5 epsilon / num_steps",
            "num_restarts": section.attack_restarts,
            "refine_steps": section.refine_steps,
            "num_eot": section.num_eot,
            "units": "levels of 255, for pixels in [0, 1]; l2 of the whole image",
        }
    }
    for norm, norm_key in zip(NORMS, jax.random.split(key), strict=True):
        levels = section[f"attack_{norm}"]
        if levels:
            curve = _curve(norm, classify, section)
            keys = jax.random.split(norm_key, num_batches)
            epsilons = metrics.epsilon_from_levels(jnp.asarray(levels, jnp.float32))
            is_right = curve(model, epsilons, keys, *batches)
            accuracies = jnp.mean(is_right, axis=(0, 2), dtype=jnp.float32).tolist()
            report[norm] = {f"{level:g}": a for level, a in zip(levels, accuracies, strict=True)}
            by_radius = np.moveaxis(np.asarray(is_right), 1, 0).reshape(len(levels), -1)
            withstood |= {f"{norm}.{x:g}": y for x, y in zip(levels, by_radius, strict=True)}
    return report, withstood


def _curve(norm: Any, classify: Callable[..., jax.Array], section: Config) -> Callable[..., Any]:
    """Returns ``(model, epsilons, keys, images, labels) -> (batches, radii, images)``, compiled."""

    level = section.attack_step_size
    step_size = None if level is None else metrics.epsilon_from_levels(level)

    def curve(model: Trained, epsilons: jax.Array, *batches: jax.Array) -> jax.Array:
        def one_batch(batch: tuple[Key, jax.Array, jax.Array]) -> jax.Array:
            key, images, labels = batch
            return metrics.robust_images(
                key,
                partial(classify, model),
                images,
                labels,
                epsilons,
                norm=norm,
                num_steps=section.attack_steps,
                step_size=step_size,
                num_restarts=section.attack_restarts,
                num_eot=section.num_eot,
            )

        return jax.lax.map(one_batch, batches)

    return jax.jit(curve)


def classify_fn(
    classifier: Network,
    plan: ChainPlan | None,
    densities_of: DensitiesOf,
    refine_steps: int,
) -> Callable[[Trained, Key, jax.Array], jax.Array]:
    """Returns the attacked ``(model, key, images) -> logits``, of images or refined copies.

    Refinement moves every image by ``refine_steps`` of the run's sampler before classification and
    passes the gradient straight through (BPDA).

    Raises:
      ConfigError: if there is no sampler of single images to refine with.
    """
    if not refine_steps:
        return lambda model, _, images: classifier.apply(model.params, model.statistics, images)[0]
    if plan is None or plan.is_interacting:
        raise ConfigError(
            f"config.eval.refine_steps={refine_steps} needs a run whose chains move each on its "
            "own, because every image must be classified on its own. Set it to 0."
        )
    sampler = plan

    def classify(model: Trained, key: Key, images: jax.Array) -> jax.Array:
        def refine(key: Key, images: jax.Array) -> jax.Array:
            labels = jnp.full(len(images), ANY_CLASS)
            return move(key, sampler, densities_of, model, images, labels, refine_steps)

        refined = metrics.straight_through(refine)(key, images)
        return classifier.apply(model.params, model.statistics, refined)[0]

    return classify
