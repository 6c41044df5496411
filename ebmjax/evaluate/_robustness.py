"""Accuracy under attack, plain or behind a transform of the images."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax._checks import check_at_least
from ebmjax.data import ImageData
from ebmjax.evaluate._classifier import LogitsFn, as_floats, as_partial, checked
from ebmjax.types import Key


def robustness(
    key: Key,
    logits_fn: LogitsFn,
    test: ImageData,
    *,
    linf: Sequence[float] = (0, 4, 16, 32),
    l2: Sequence[float] = (0, 64, 128, 256),
    num_steps: int = 20,
    step_size: float | None = None,
    num_restarts: int = 1,
    transform: Any = None,
    num_eot: int = 1,
    batch_size: int = 256,
) -> dict[str, Any]:
    """Returns accuracy under PGD attacks at every radius of both norms, and the protocol.

    Images are attacked in batches of equal size. The remainder is left out.

    Args:
      key: split over norms and batches.
      logits_fn: images to logits; an image's logits depend on that image alone.
      test: labelled images; take the first hundred or so of many.
      linf: radii in L-infinity, in levels of 255; () for none.
      l2: radii in L2 of the whole image, in levels of 255; () for none.
      num_steps: steps of an attack.
      step_size: in levels of 255; None for 2.5 radii / num_steps.
      num_restarts: random starts of an attack.
      transform: ``transform(key, images) -> images`` before classification, such as some steps of a
        sampler. Gradients pass straight through (BPDA). None for none.
      num_eot: gradients averaged in a step, where ``transform`` is random.
      batch_size: images at a time, at most.

    Returns:
      "linf" and "l2": radius to accuracy. "protocol" says how. "per_image": "<norm>.<radius>" to
      bool (images,), those that withstood.

    Raises:
      TypeError, ValueError: as ``classifier`` and ``metrics.pgd_attack``.

    Example:
      >>> brightness = lambda x: jnp.stack([-x.mean((1, 2, 3)), x.mean((1, 2, 3))], axis=1)
      >>> test = ImageData(np.full((2, 1, 1, 1), 138, np.uint8), [1, 1])  # 10.5 levels from grey
      >>> robustness(jax.random.key(0), brightness, test, linf=(0, 8, 16), l2=())["linf"]
      {'0': 1.0, '8': 1.0, '16': 0.0}
    """
    check_at_least("batch_size", batch_size, 1)
    test = checked(test, logits_fn)
    num_batches = -(-len(test.images) // batch_size)
    size = len(test.images) // num_batches
    arrays = (as_floats(test.images), jnp.asarray(test.labels))
    batches = [x[: num_batches * size].reshape(-1, size, *x.shape[1:]) for x in arrays]
    report: dict[str, Any] = {
        "protocol": {
            "attack": "PGD from a random start; an image broken at any step counts as broken",
            "num_images": num_batches * size,
            "num_steps": num_steps,
            "step_size": step_size or "2.5 epsilon / num_steps",
            "num_restarts": num_restarts,
            "num_eot": num_eot,
            "units": "levels of 255, for pixels in [0, 1]; l2 of the whole image",
        },
        "per_image": {},
    }
    attack: dict[str, Any] = {
        "num_steps": num_steps,
        "step_size": None if step_size is None else metrics.epsilon_from_levels(step_size),
        "num_restarts": num_restarts,
        "num_eot": num_eot,
    }
    functions = as_partial(logits_fn), transform and as_partial(transform)
    for (norm, levels), norm_key in zip(
        {"linf": linf, "l2": l2}.items(), jax.random.split(key), strict=True
    ):
        if not len(levels):
            continue
        epsilons = metrics.epsilon_from_levels(jnp.asarray(levels, jnp.float32))
        keys = jax.random.split(norm_key, num_batches)
        curve = jax.jit(lambda *given, norm=norm: _curve(*given, norm=norm, **attack))
        is_right = curve(functions, epsilons, keys, *batches)
        accuracies = jnp.mean(is_right, axis=(0, 2), dtype=jnp.float32).tolist()
        names = [f"{level:g}" for level in levels]
        report[norm] = dict(zip(names, accuracies, strict=True))
        by_radius = np.moveaxis(np.asarray(is_right), 1, 0).reshape(len(levels), -1)
        report["per_image"] |= {f"{norm}.{n}": x for n, x in zip(names, by_radius, strict=True)}
    return report


def _curve(
    functions: tuple[LogitsFn, Any],
    epsilons: jax.Array,
    keys: Key,
    images: jax.Array,
    labels: jax.Array,
    **attack: Any,
) -> jax.Array:
    """Returns which images withstand, (batches, radii, images)."""
    logits_fn, transform = functions

    def classify(key: Key, images: jax.Array) -> jax.Array:
        if transform is not None:
            images = metrics.straight_through(transform)(key, images)
        return logits_fn(images)

    def one_batch(batch: tuple[Key, jax.Array, jax.Array]) -> jax.Array:
        key, images, labels = batch
        return metrics.robust_images(key, classify, images, labels, epsilons, **attack)

    return jax.lax.map(one_batch, (keys, images, labels))
