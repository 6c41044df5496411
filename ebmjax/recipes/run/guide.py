"""Draws samples of a run that another run, or a class, guides."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import densities
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.evaluate import Chains
from ebmjax.learning import ANY_CLASS
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.evaluators.chains import make_fresh_chains
from ebmjax.recipes.evaluators.image_model import images_of
from ebmjax.types import Key, LogDensityFn


class Guided(NamedTuple):
    """Trained models that a chain follows together: the run's own, and the one that guides it."""

    own: Any
    guide: Any

    @property
    def adaptation(self) -> Any:
        """Step sizes that adapted, of the run."""
        return self.own.adaptation


def sample_guided(
    key: Key,
    model: Any,
    guide: Any,
    label: int | None,
    weight: float,
    num: int,
    num_steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Returns samples of log p(x) + w log p(y | x), or of log p(x) + w log q(x) without a class.

    Chains start and move as the run's own do, and are as cold. They belong to no class; those that
    follow a class of the run itself start as this class does. Points of the plane are independent
    draws on the run's grid, unless ``num_steps`` is given.

    Args:
      key: consumed.
      model: of the run: its log p, its chains.
      guide: the model that has p(y | x) or q; ``model`` itself for its own class.
      label: y, a class of the guide; None for its density.
      weight: w.
      num: of samples.
      num_steps: of each chain; None for the run's own evaluation's.

    Returns:
      "images" and "start_images" uint8, or "points", (num, ...), of chains that stayed finite, and
      what the guide thinks of them, (num,): "class_probability", or "guide_log_density" up to a
      constant. Samples of chains have the same of their starts, prefixed "start_".
    """

    def follow(density: LogDensityFn, trained: Any, factor: Any) -> LogDensityFn:
        """Returns ``density``, guided with ``factor``."""

        def of_classes(x: jax.Array) -> jax.Array:
            return guide.class_log_densities(trained, x)

        if label is None:
            fns = [density, lambda x: jax.nn.logsumexp(of_classes(x))]
            return densities.product(fns, [1.0, factor])
        return densities.guide(density, of_classes, label, factor)

    def densities_of(models: Guided) -> Any:
        density = model.any_class_density(models.own)
        guided = follow(density, models.guide, weight * model.chain_scale(models.own))
        return lambda chain_label: guided

    @jax.jit
    def judge(trained: Any, x: jax.Array) -> jax.Array:
        alone = follow(lambda x: jnp.zeros(()), trained, 1.0)
        values = map_groups(alone, x, min(model.config.eval.batch_size, len(x)))
        return values if label is None else jnp.exp(values)

    name = "guide_log_density" if label is None else "class_probability"
    if is_points(model.config) and num_steps is None and model.train.images.shape[1] == 2:
        own = follow(
            lambda x: model.class_log_densities(model.trained, x)[0], guide.trained, weight
        )
        points = replace(model, log_density_of=lambda _: jax.vmap(own), programs={}).sample(
            key, num
        )
        return points | {name: np.asarray(judge(guide.trained, jnp.asarray(points["points"])))}
    steps = num_steps or model.num_chain_steps
    labels = _group(model, num, label if guide is model else None)
    say_part(f"{labels.size:,} chains of {steps:,} steps")
    run = make_fresh_chains(model.plan, densities_of, steps)
    own = model.trained._replace(beta=jnp.float32(0)) if is_points(model.config) else model.trained
    starts, ends = (x[:num] for x in run(key, Guided(own, guide.trained), labels))
    is_finite = np.isfinite(ends).reshape(num, -1).all(axis=1)
    starts, ends = starts[is_finite], ends[is_finite]
    found = images_of(Chains(starts, ends)) if ends.ndim == 4 else {"points": ends}
    if len(ends):
        found |= {name: judge(guide.trained, ends), f"start_{name}": judge(guide.trained, starts)}
    return {k: np.asarray(array) for k, array in found.items()}


def _group(model: Any, num: int, label: int | None) -> np.ndarray:
    """Returns labels (groups, size) of the chains, that many at the same time.

    Particles that interact come in groups of the size used in training.
    """
    kinds, batch = len(model.plan.kinds), model.config.eval.batch_size
    size = -(-num // (-(-num // batch) * kinds)) * kinds
    if model.plan.is_interacting:
        size = model.config.sampler.num_samples
    return np.full((-(-num // size), size), ANY_CLASS if label is None else label, np.int32)
