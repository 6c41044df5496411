"""Accuracy under attack, plain or behind a transform of the images."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ebmjax import metrics
from ebmjax._checks import check_at_least
from ebmjax._groups import map_groups, num_devices
from ebmjax._programs import make_program
from ebmjax.data import ImageData
from ebmjax.evaluate._classifier import LogitsFn, as_floats, as_partial, check_test
from ebmjax.types import Key

Flags = dict[str, np.ndarray]
"""``"<norm>.<radius>"`` to one bool an image."""

NORMS = ("linf", "l2")
UNITS = "levels of 255, for pixels in [0, 1]; l2 of the whole image"


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
    gradients: Sequence[Literal["bpda", "full"]] = ("bpda", "full"),
    num_eot: int = 1,
    batch_size: int = 256,
) -> dict[str, Any]:
    """Returns accuracy under PGD attacks at every radius of both norms, and the protocol.

    An image withstands if no attack misclassifies it and at least one had a usable gradient (see
    ``metrics.PGDResult``). If some images had none, a warning says so. Images are attacked in
    batches of equal size. The remainder is left out.

    Args:
      key: split over norms, attacks and batches.
      logits_fn: images to logits; an image's logits depend on that image alone.
      test: labelled images; take the first hundred or so of many.
      linf: radii in L-infinity, in levels of 255; () for none.
      l2: radii in L2 of the whole image, in levels of 255; () for none.
      num_steps: steps of an attack.
      step_size: in levels of 255; None for 2.5 radii / num_steps.
      num_restarts: random starts of an attack.
      transform: ``transform(key, images) -> images`` before classification, such as some steps of a
        sampler. None for none.
      gradients: attacks on a transform, one for each derivative of it: "bpda" is the identity
        (``metrics.straight_through``), "full" the transform's own, which costs more memory.
      num_eot: gradients averaged in a step, where ``transform`` is random.
      batch_size: images at a time, at most.

    Returns:
      "linf" and "l2": radius to accuracy. "usable_gradient": the same of images for which some
      attack had a usable gradient. With a transform, "by_gradient" has both for each attack alone.
      "protocol" says how. "per_image": "<norm>.<radius>" to bool (images,), those that withstood.

    Example:
      >>> brightness = lambda x: jnp.stack([-x.mean((1, 2, 3)), x.mean((1, 2, 3))], axis=1)
      >>> test = ImageData(np.full((2, 1, 1, 1), 138, np.uint8), [1, 1])  # 10.5 levels from grey
      >>> robustness(jax.random.key(0), brightness, test, linf=(0, 8, 16), l2=())["linf"]
      {'0': 1.0, '8': 1.0, '16': 0.0}
    """
    test, classifiers = prepare(logits_fn, test, linf, l2, transform, gradients, batch_size)
    num_batches = -(-len(test.images) // batch_size)
    size = len(test.images) // num_batches
    test = ImageData(*(array[: num_batches * size] for array in test))
    attack: dict[str, Any] = {
        "num_steps": num_steps,
        "step_size": None if step_size is None else metrics.epsilon_from_levels(step_size),
        "num_restarts": num_restarts,
        "num_eot": num_eot,
    }
    unbroken: dict[str, Flags] = {name: {} for name in classifiers}
    usable: dict[str, Flags] = {name: {} for name in classifiers}
    for norm, levels, norm_key in zip(NORMS, (linf, l2), jax.random.split(key), strict=True):
        keys = jax.random.split(norm_key, (len(classifiers), num_batches))
        for (name, classify), own_keys in zip(classifiers.items(), keys, strict=True):
            if not len(levels):
                continue
            pgd = partial(metrics.pgd_attack, norm=norm, **attack)
            run = make_run(pgd, classify, test, size, key)
            split = partial(jax.random.split, num=len(levels))
            by_level = jax.vmap(split, out_axes=1)(own_keys)
            for level, level_keys in zip(levels, by_level, strict=True):
                found = run(level_keys, level, np.ones(len(test.images), bool))
                unbroken[name][f"{norm}.{level:g}"] = ~found[0]
                usable[name][f"{norm}.{level:g}"] = found[1]
    had_gradient = combine_flags(np.logical_or, *usable.values())
    withstood = combine_flags(np.logical_and, *unbroken.values(), had_gradient)
    warn_without_gradient(had_gradient)
    report: dict[str, Any] = {
        **fractions(withstood),
        "usable_gradient": fractions(had_gradient),
        "protocol": {
            "attack": "PGD from a random start; an image broken at any step counts as broken",
            "num_images": len(test.images),
            **attack,
            "step_size": step_size or "2.5 epsilon / num_steps",
            "units": UNITS,
        },
        "per_image": withstood,
    }
    if transform:
        report["protocol"]["gradients"] = list(classifiers)
        report["by_gradient"] = {
            name: {
                **fractions(combine_flags(np.logical_and, unbroken[name], usable[name])),
                "usable_gradient": fractions(usable[name]),
            }
            for name in classifiers
        }
    return report


def prepare(
    logits_fn: LogitsFn,
    test: ImageData,
    linf: Sequence[float],
    l2: Sequence[float],
    transform: Any,
    gradients: Sequence[str],
    batch_size: int,
) -> tuple[ImageData, dict[str, Any]]:
    """Returns images as floats, and the classifier for each derivative of the transform, if any.

    Raises ValueError unless the arguments of ``robustness`` can be used.
    """
    check_at_least("batch_size", batch_size, 1)
    if not gradients or set(gradients) - {"bpda", "full"} or isinstance(gradients, str):
        raise ValueError(
            f"gradients must name at least one of 'bpda' and 'full', got {gradients!r}."
        )
    metrics.epsilon_from_levels(np.array([*linf, *l2]))
    test = check_test(test, logits_fn)
    functions = as_partial(logits_fn), transform and as_partial(transform)
    kinds = gradients if transform else ("none",)
    classifiers = {kind: Partial(partial(_classify, kind), *functions) for kind in kinds}
    return ImageData(np.asarray(as_floats(test.images)), test.labels), classifiers


def _classify(
    gradient: str, logits_fn: LogitsFn, transform: Any, key: Key, images: jax.Array
) -> jax.Array:
    if gradient == "bpda":
        transform = metrics.straight_through(transform)
    return logits_fn(transform(key, images) if transform else images)


def make_run(attack: Any, classify: Any, test: ImageData, size: int, key: Key) -> Any:
    """Returns ``run(keys, level, alive)``: which images (N,) it broke, and which had a gradient.

    Args:
      attack: ``attack(key, classify, images, labels, epsilon=...)`` to a result of ``metrics``.
      classify: a Partial.
      test: from ``prepare``; only images that are alive, (N,), are attacked.
      size: images in a batch. A batch of fewer is filled with copies; batches have a key each.
      key: an example.
    """
    num, groups = len(test.images), num_devices()

    def attack_groups(classify: Any, epsilon: jax.Array, rows: Any) -> tuple[jax.Array, jax.Array]:
        def one_group(group: tuple[Key, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            found = attack(group[0], classify, *group[1:], epsilon=epsilon)
            margins = found.distance - epsilon if hasattr(found, "distance") else found.margin
            return margins <= 0, found.had_gradient

        return map_groups(one_group, rows)

    rows = np.zeros((groups, size), int)
    batch = jax.random.split(key, groups), test.images[rows], test.labels[rows]
    program = make_program(attack_groups, classify, jnp.float32(0), batch)

    def run(keys: Key, level: float, alive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        broken, moved = np.zeros((2, num), bool)
        left = np.flatnonzero(alive)
        for i in range(0, -(-len(left) // size), groups):
            rows = np.resize(left[i * size : (i + groups) * size], (groups, size))
            batch = keys[np.arange(i, i + groups) % len(keys)], test.images[rows], test.labels[rows]
            is_broken, had_gradient = program(classify, metrics.epsilon_from_levels(level), batch)
            broken[rows[np.asarray(is_broken)]] = True
            moved[rows[np.asarray(had_gradient)]] = True
        return broken, moved

    return run


def combine_flags(operation: np.ufunc, *found: Flags) -> Flags:
    """Returns an operation over flags of the same images."""
    return {name: operation.reduce([one[name] for one in found]) for name in found[0]}


def fractions(flags: Flags, of: Callable[[np.ndarray], Any] = np.mean) -> dict[str, Any]:
    """Returns norm to radius to the fraction, or to another number, of its flags."""
    nested: dict[str, Any] = {}
    for name, found in flags.items():
        norm, radius = name.split(".", 1)
        nested.setdefault(norm, {})[radius] = float(of(found))
    return nested


def warn_without_gradient(had_gradient: Flags) -> None:
    """Warns of the norm and radius where most images had no usable gradient."""
    name = min(had_gradient, key=lambda name: had_gradient[name].sum(), default=None)
    if name is None or np.all(flags := had_gradient[name]):
        return
    warnings.warn(
        f"At {name.replace('.', ' ', 1)}/255 {np.sum(~flags)} of {len(flags)} attacked images had "
        "no usable gradient (NaN, infinite, or zero at every pixel), so no attack could move them. "
        "They do not count as robust, and robust accuracy says nothing of them.",
        stacklevel=3,
    )
