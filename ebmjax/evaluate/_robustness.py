"""Accuracy under attack, plain or behind a transform of the images."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import jax
import numpy as np
from jax.tree_util import Partial

from ebmjax import metrics
from ebmjax._checks import check_at_least
from ebmjax._groups import map_groups
from ebmjax._ranges import COUNT, POSITIVE, RADIUS, one_of, optional
from ebmjax.data import ImageData
from ebmjax.evaluate._classifier import LogitsFn, as_floats, as_partial, check_test
from ebmjax.types import Key

Flags = dict[str, np.ndarray]
"""``"<norm>.<radius>"`` to one bool an image."""
ATTACKS = {"pgd": "", "apgd_ce": "ce", "apgd_dlr": "dlr", "apgd_t": "dlr_targeted"}
"""Name of an attack to its loss, for those of ``metrics.apgd_attack``."""


def robustness(
    key: Key,
    logits_fn: LogitsFn,
    test: ImageData,
    *,
    linf: Annotated[Sequence[float], RADIUS] = (0, 4, 16, 32),
    l2: Annotated[Sequence[float], RADIUS] = (0, 64, 128, 256),
    attack: Annotated[Any, one_of("pgd", "apgd_ce", "apgd_dlr", "apgd_t")] = "pgd",
    num_steps: Annotated[int, COUNT] = 20,
    step_size: Annotated[float | None, optional(POSITIVE)] = None,
    num_restarts: Annotated[int, COUNT] = 1,
    transform: Any = None,
    gradients: Sequence[Literal["bpda", "full"]] = ("bpda", "full"),
    num_eot: Annotated[int, COUNT] = 1,
    batch_size: int = 256,
) -> dict[str, Any]:
    """Returns accuracy under attack at every radius of both norms, and the protocol.

    An image withstands if no attack misclassifies it and at least one had a usable gradient (see
    ``metrics.pgd_attack``). Images are attacked in batches of equal size, without the remainder.

    Args:
      key: split over norms, attacks and batches.
      logits_fn: images to logits; an image's logits depend on that image alone.
      test: labelled images; take the first hundred or so of many.
      linf: radii in L-infinity, of 255; () for none.
      l2: radii in L2 of the whole image, of 255; () for none.
      attack: kind of attack: PGD, or AutoPGD by cross-entropy, DLR or targeted DLR. See
        ``metrics.pgd_attack`` and ``metrics.apgd_attack``.
      num_steps: steps of an attack.
      step_size: step of PGD, of 255; None: 2.5 radii / steps.
      num_restarts: random starts of an attack.
      transform: ``transform(key, images) -> images`` before classification, such as some steps of a
        sampler. None for none.
      gradients: attacks on a transform, one for each derivative of it: "bpda" is the identity
        (``metrics.straight_through``), "full" the transform's own, which costs more memory.
      num_eot: gradients averaged in a step of an attack. It is 1 without a transform.
      batch_size: images at a time, at most.

    Returns:
      "linf" and "l2": radius to accuracy. "usable_gradient": the same of images for which some
      attack had a usable gradient. With a transform, "by_gradient" has both for each attack alone.
      "protocol" says how. "per_image": "<norm>.<radius>" to bool (images,), those that withstood.
    """
    check_at_least("batch_size", batch_size, 1)
    if not gradients or set(gradients) - {"bpda", "full"} or isinstance(gradients, str):
        raise ValueError(
            f"gradients must name at least one of 'bpda' and 'full', got {gradients!r}."
        )
    if attack not in ATTACKS or (step_size is not None and attack != "pgd"):
        raise ValueError(
            f"attack must be one of {[*ATTACKS]}, of which 'pgd' alone has a step_size; got "
            f"{attack=} and {step_size=}."
        )
    metrics.epsilon_from_levels(np.array([*linf, *l2]))  # refuses what is no radius
    test = check_test(test, logits_fn)
    kinds = gradients if transform else ("none",)
    num_batches = -(-len(test.images) // batch_size)
    size = len(test.images) // num_batches
    images, labels = (
        array[: num_batches * size].reshape(num_batches, size, *array.shape[1:]) for array in test
    )
    images = np.asarray(as_floats(images))
    options = {"num_steps": num_steps, "num_restarts": num_restarts}
    options["num_eot"] = num_eot if transform else 1
    attack_fn: Any = partial(metrics.apgd_attack, loss=ATTACKS[attack], **options)
    if attack == "pgd":
        length = None if step_size is None else metrics.epsilon_from_levels(step_size)
        attack_fn = partial(metrics.pgd_attack, step_size=length, **options)
    functions = as_partial(logits_fn), transform and as_partial(transform)
    unbroken: dict[str, Flags] = {kind: {} for kind in kinds}
    usable: dict[str, Flags] = {kind: {} for kind in kinds}
    for norm, levels, norm_key in zip(
        ("linf", "l2"), (linf, l2), jax.random.split(key), strict=True
    ):
        keys = jax.random.split(norm_key, (len(kinds), num_batches))
        for kind, own_keys in zip(kinds, keys, strict=True):
            if not len(levels):
                continue
            classify = Partial(partial(_classify, kind), *functions)
            run = jax.jit(partial(_attack_batches, partial(attack_fn, norm=norm)))
            split = partial(jax.random.split, num=len(levels))
            by_level = jax.vmap(split, out_axes=1)(own_keys)
            for level, level_keys in zip(levels, by_level, strict=True):
                name = f"{norm}.{level:g}"
                epsilon = metrics.epsilon_from_levels(level)
                flags = run(classify, epsilon, (level_keys, images, labels))
                unbroken[kind][name], usable[kind][name] = (np.ravel(one) for one in flags)
    had_gradient = _combine(np.logical_or, *usable.values())
    withstood = _combine(np.logical_and, *unbroken.values(), had_gradient)
    report: dict[str, Any] = {
        **_fractions(withstood),
        "usable_gradient": _fractions(had_gradient),
        "protocol": {
            "attack": f"{attack} from a random start; an image broken at any step is broken",
            "num_images": num_batches * size,
            **options,
            "step_size": step_size or "2.5 epsilon / num_steps",
            "units": "levels of 255, for pixels in [0, 1]; l2 of the whole image",
        },
        "per_image": withstood,
    }
    if transform:
        report["protocol"]["gradients"] = list(kinds)
        report["by_gradient"] = {
            kind: {
                **_fractions(_combine(np.logical_and, unbroken[kind], usable[kind])),
                "usable_gradient": _fractions(usable[kind]),
            }
            for kind in kinds
        }
    return report


def _classify(
    gradient: str, logits_fn: LogitsFn, transform: Any, key: Key, images: jax.Array
) -> jax.Array:
    if gradient == "bpda":
        transform = metrics.straight_through(transform)
    return logits_fn(transform(key, images) if transform else images)


def _attack_batches(
    attack: Any, classify: Any, epsilon: jax.Array, batches: Any
) -> tuple[jax.Array, jax.Array]:
    """Returns which images withstood, and which had a gradient, (batches, size) each.

    ``batches`` are a key, images and labels of each; see ``metrics.pgd_attack`` for ``attack``.
    """

    def one(batch: tuple[Key, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        found = attack(batch[0], classify, *batch[1:], epsilon=epsilon)
        return found.margin > 0, found.had_gradient

    return map_groups(one, batches)


def _combine(operation: np.ufunc, *found: Flags) -> Flags:
    """Returns an operation over flags of the same images."""
    return {name: operation.reduce([one[name] for one in found]) for name in found[0]}


def _fractions(flags: Flags) -> dict[str, Any]:
    """Returns norm to radius to the fraction of its flags."""
    nested: dict[str, Any] = {}
    for name, found in flags.items():
        norm, radius = name.split(".", 1)
        nested.setdefault(norm, {})[radius] = float(np.mean(found))
    return nested
