"""Accuracy under attack, plain or behind a transform of the images."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax._checks import check_at_least
from ebmjax._groups import map_groups
from ebmjax._programs import run_program
from ebmjax.data import ImageData
from ebmjax.evaluate._classifier import LogitsFn, as_floats, as_partial, check_test
from ebmjax.types import Key

Flags = dict[str, dict[str, np.ndarray]]
"""Norm to radius to one bool an image."""

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
    check_at_least("batch_size", batch_size, 1)
    check_gradients(gradients)
    test = check_test(test, logits_fn)
    num_batches = -(-len(test.images) // batch_size)
    size = len(test.images) // num_batches
    arrays = (as_floats(test.images), jnp.asarray(test.labels))
    batches = [x[: num_batches * size].reshape(-1, size, *x.shape[1:]) for x in arrays]
    attack: dict[str, Any] = {
        "num_steps": num_steps,
        "step_size": None if step_size is None else metrics.epsilon_from_levels(step_size),
        "num_restarts": num_restarts,
        "num_eot": num_eot,
    }
    functions = as_partial(logits_fn), transform and as_partial(transform)
    attacks = tuple(gradients) if transform else ("none",)
    unbroken: dict[str, Flags] = {name: {} for name in attacks}
    usable: dict[str, Flags] = {name: {} for name in attacks}
    for (norm, levels), norm_key in zip(
        {"linf": linf, "l2": l2}.items(), jax.random.split(key), strict=True
    ):
        if not len(levels):
            continue
        epsilons = metrics.epsilon_from_levels(jnp.asarray(levels, jnp.float32))
        keys = jax.random.split(norm_key, (len(attacks), num_batches))
        names = [f"{level:g}" for level in levels]
        for i, name in enumerate(attacks):
            curve = partial(_curve, gradient=name, norm=norm, **attack)
            flags_of = run_program(curve, functions, epsilons, keys[i], *batches)
            for found, flags in zip((unbroken, usable), flags_of, strict=True):
                by_radius = np.moveaxis(np.asarray(flags), 1, 0).reshape(len(levels), -1)
                found[name][norm] = dict(zip(names, by_radius, strict=True))
    had_gradient = _combine_flags(np.logical_or, *usable.values())
    withstood = _combine_flags(np.logical_and, *unbroken.values(), had_gradient)
    warn_without_gradient(had_gradient)
    report: dict[str, Any] = {
        **fractions(withstood),
        "usable_gradient": fractions(had_gradient),
        "protocol": {
            "attack": "PGD from a random start; an image broken at any step counts as broken",
            "num_images": num_batches * size,
            "num_steps": num_steps,
            "step_size": step_size or "2.5 epsilon / num_steps",
            "num_restarts": num_restarts,
            "num_eot": num_eot,
            "units": UNITS,
        },
        "per_image": by_name(withstood),
    }
    if transform:
        report["protocol"]["gradients"] = list(attacks)
        report["by_gradient"] = {
            name: {
                **fractions(_combine_flags(np.logical_and, unbroken[name], usable[name])),
                "usable_gradient": fractions(usable[name]),
            }
            for name in attacks
        }
    return report


def check_gradients(gradients: Sequence[str]) -> None:
    if not gradients or set(gradients) - {"bpda", "full"} or isinstance(gradients, str):
        raise ValueError(
            f"gradients must name at least one of 'bpda' and 'full', got {gradients!r}."
        )


def _combine_flags(operation: np.ufunc, *found: Flags) -> Flags:
    """Returns an operation over flags of the same images."""
    return {
        norm: {r: operation.reduce([one[norm][r] for one in found]) for r in by_radius}
        for norm, by_radius in found[0].items()
    }


def fractions(flags: Flags, of: Callable[[np.ndarray], Any] = np.mean) -> dict[str, Any]:
    """Returns norm to radius to the fraction, or to another number, of its flags."""
    return {norm: {r: float(of(x)) for r, x in found.items()} for norm, found in flags.items()}


def by_name(flags: Flags) -> dict[str, np.ndarray]:
    """Returns "<norm>.<radius>" to one bool an image."""
    return {f"{norm}.{r}": x for norm, found in flags.items() for r, x in found.items()}


def make_classifier(functions: tuple[LogitsFn, Any], gradient: str) -> metrics.KeyedLogitsFn:
    """Returns the logits behind the transform, if any, whose derivative is 1 for "bpda"."""
    logits_fn, transform = functions
    if gradient == "bpda":
        transform = metrics.straight_through(transform)

    def classify(key: Key, images: jax.Array) -> jax.Array:
        return logits_fn(images if transform is None else transform(key, images))

    return classify


def warn_without_gradient(had_gradient: Flags) -> None:
    """Warns of the norm and radius where most images had no usable gradient."""
    missing = {
        f"{norm} {r}/255": int(np.sum(~x))
        for norm, found in had_gradient.items()
        for r, x in found.items()
    }
    worst = max(missing, key=lambda name: missing[name], default=None)
    if worst is None or not missing[worst]:
        return
    num = len(next(iter(next(iter(had_gradient.values())).values())))
    warnings.warn(
        f"At {worst} {missing[worst]} of {num} attacked images had no usable gradient (NaN, "
        "infinite, or zero at every pixel), so no attack could move them. They do not count as "
        "robust, and robust accuracy says nothing of them.",
        stacklevel=3,
    )


def _curve(
    functions: tuple[LogitsFn, Any],
    epsilons: jax.Array,
    keys: Key,
    images: jax.Array,
    labels: jax.Array,
    *,
    gradient: str,
    **attack: Any,
) -> tuple[jax.Array, jax.Array]:
    """Returns which images stay correct and which had a gradient, each (batches, radii, images)."""
    classify = make_classifier(functions, gradient)

    def one_batch(batch: tuple[Key, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, images, labels = batch

        def one_radius(keyed: tuple[Key, jax.Array]) -> tuple[jax.Array, jax.Array]:
            key, epsilon = keyed
            found = metrics.pgd_attack(key, classify, images, labels, epsilon=epsilon, **attack)
            return found.margin > 0, found.had_gradient

        return jax.lax.map(one_radius, (jax.random.split(key, len(epsilons)), epsilons))

    return map_groups(one_batch, (keys, images, labels))
