"""Accuracy under AutoAttack: four attacks in turn, each on the images that still withstand."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from ebmjax import metrics
from ebmjax._checks import check_at_least
from ebmjax._groups import map_groups
from ebmjax._programs import make_program
from ebmjax.data import ImageData
from ebmjax.evaluate._classifier import LogitsFn, as_floats, as_partial, check_test
from ebmjax.evaluate._robustness import (
    UNITS,
    Flags,
    by_name,
    check_gradients,
    fractions,
    make_classifier,
    warn_without_gradient,
)
from ebmjax.types import Key

LOSSES = {"apgd_ce": "ce", "apgd_dlr": "dlr", "apgd_t": "dlr_targeted"}
ATTACKS = ("apgd_ce", "apgd_t", "fab_t", "square")
CHOICES = (*LOSSES, "fab_t", "square")


def auto_attack(
    key: Key,
    logits_fn: LogitsFn,
    test: ImageData,
    *,
    linf: Sequence[float] = (0, 4, 16, 32),
    l2: Sequence[float] = (0, 64, 128, 256),
    attacks: Sequence[str] = ATTACKS,
    num_steps: int = 100,
    num_queries: int = 5000,
    transform: Any = None,
    gradients: Sequence[Literal["bpda", "full"]] = ("bpda", "full"),
    num_eot: int = 1,
    batch_size: int = 32,
) -> dict[str, Any]:
    """Returns accuracy under AutoAttack at every radius of both norms, and after each attack.

    An image is attacked only until something breaks it: an attack of the list, or one at a smaller
    radius, whose ball lies within the larger one. So curves never rise. An image that no attack had
    a usable gradient for does not count, except where "square" is among them, which needs none.

    Args:
      key, logits_fn, test, linf, l2, transform, gradients, num_eot: as for ``robustness``.
      attacks: in turn. "apgd_ce", "apgd_dlr" and "apgd_t" (targeted DLR) are
        ``metrics.apgd_attack``, "fab_t" is ``metrics.fab_attack``, and "square" is
        ``metrics.square_attack``. With three classes "apgd_dlr" replaces "apgd_t". With two,
        neither runs, because DLR needs three; cross-entropy is the margin itself then.
      num_steps: steps of APGD and of FAB towards each of up to 9 classes.
      num_queries: squares that are tried.
      batch_size: images at a time, at most. Smaller batches skip more of the broken images.

    Returns:
      "linf" and "l2": radius to accuracy. "low" and "high": ends of Wilson's 95 % intervals for so
      many images. "clean": accuracy without an attack. "after": accuracies that each attack in turn
      leaves. "usable_gradient", "protocol" and "per_image": as for ``robustness``.

    Source: Croce & Hein 2020, "Reliable evaluation of adversarial robustness with an ensemble of
    diverse parameter-free attacks".

    Example:
      >>> brightness = lambda x: jnp.stack([-x.mean((1, 2, 3)), x.mean((1, 2, 3))], axis=1)
      >>> test = ImageData(np.full((2, 1, 1, 1), 138, np.uint8), [1, 1])  # 10.5 levels from grey
      >>> found = auto_attack(
      ...     jax.random.key(0), brightness, test, linf=(8, 16), l2=(), num_steps=5, num_queries=20
      ... )
      >>> found["linf"], list(found["after"])
      ({'8': 1.0, '16': 0.0}, ['apgd_ce', 'fab_t', 'square'])
    """
    check_at_least("batch_size", batch_size, 1)
    check_gradients(gradients)
    if not attacks or isinstance(attacks, str) or set(attacks) - {*CHOICES}:
        raise ValueError(f"attacks must name at least one of {CHOICES}, got {attacks!r}.")
    test = check_test(test, logits_fn)
    arrays = as_floats(test.images), jnp.asarray(test.labels)
    num, num_classes = len(test.images), jax.eval_shape(logits_fn, arrays[0][:1]).shape[1]
    attacks = _fit_to_classes(attacks, num_classes)
    functions = as_partial(logits_fn), transform and as_partial(transform)
    kinds = tuple(gradients) if transform else ("none",)
    runs = [(name, kind) for name in attacks for kind in (kinds[:1] if name == "square" else kinds)]
    options = {"num_steps": num_steps, "num_queries": num_queries, "num_eot": num_eot}

    def program(norm: str, run: tuple[str, str]) -> Any:
        attack = partial(_attack, name=run[0], norm=norm, **options)
        survivors = partial(_survivors, attack, run[1], batch_size)
        examples = functions, *arrays, key, jnp.float32(0), np.ones(num, bool)
        return partial(make_program(survivors, *examples), functions, *arrays)

    clean_key, *norm_keys = jax.random.split(key, 3)
    clean, _ = program("linf", ("clean", kinds[0]))(clean_key, jnp.float32(0), np.ones(num, bool))
    withstood: Flags = {}
    usable: Flags = {}
    after: dict[str, Flags] = {name: {} for name in attacks}
    for (norm, levels), norm_key in zip({"linf": linf, "l2": l2}.items(), norm_keys, strict=True):
        if not len(levels):
            continue
        programs = {run: program(norm, run) for run in runs}
        alive = clean
        for flags in (withstood, usable, *after.values()):
            flags[norm] = {}
        for i, level in enumerate(sorted(levels)):
            radius, moved = f"{level:g}", np.full(num, level == 0)
            epsilon = metrics.epsilon_from_levels(level)
            for j, run in enumerate(runs):
                if level > 0 and alive.any():
                    run_key = jax.random.fold_in(jax.random.fold_in(norm_key, i), j)
                    alive, had_gradient = programs[run](run_key, epsilon, alive)
                    moved |= np.asarray(had_gradient)
                after[run[0]][norm][radius] = np.asarray(alive)
            usable[norm][radius] = moved | ~np.asarray(alive)
            withstood[norm][radius] = np.asarray(alive) & moved
    warn_without_gradient(usable)
    _warn_of_masking(after)
    return {
        **fractions(withstood),
        "clean": float(np.asarray(clean).mean()),
        **{end: fractions(withstood, partial(_interval, end)) for end in ("low", "high")},
        "after": {name: fractions(flags) for name, flags in after.items()},
        "usable_gradient": fractions(usable),
        "protocol": {
            "attacks": list(attacks),
            "num_images": num,
            **options,
            "gradients": list(kinds),
            "units": UNITS,
        },
        "per_image": by_name(withstood),
    }


def _fit_to_classes(attacks: Sequence[str], num_classes: int) -> tuple[str, ...]:
    """Returns the attacks that logits of so many classes allow, each once."""
    if num_classes == 3:
        attacks = ["apgd_dlr" if name == "apgd_t" else name for name in attacks]
    if num_classes == 2:
        attacks = [name for name in attacks if name not in ("apgd_dlr", "apgd_t")]
    return tuple(dict.fromkeys(attacks)) or ("apgd_ce",)


def _attack(
    attacked: tuple[Any, ...],
    epsilon: jax.Array,
    *,
    name: str,
    norm: Any,
    num_steps: int,
    num_queries: int,
    num_eot: int,
) -> tuple[jax.Array, jax.Array]:
    """Returns which images an attack broke and which had a gradient, (N,) each."""
    options: dict[str, Any] = {"norm": norm, "num_eot": num_eot}
    if name == "fab_t":
        near = metrics.fab_attack(*attacked, **options, num_steps=num_steps)
        return near.distance <= epsilon, near.had_gradient
    if name == "clean":
        found = metrics.pgd_attack(*attacked, epsilon=0.0, num_steps=1, **options)
    elif name == "square":
        found = metrics.square_attack(
            *attacked, epsilon=epsilon, **options, num_queries=num_queries
        )
    else:
        options |= {"loss": LOSSES[name], "num_steps": num_steps}
        found = metrics.apgd_attack(*attacked, epsilon=epsilon, **options)
    return found.margin <= 0, found.had_gradient


def _survivors(
    attack: Any,
    gradient: str,
    batch_size: int,
    functions: tuple[LogitsFn, Any],
    images: jax.Array,
    labels: jax.Array,
    key: Key,
    epsilon: jax.Array,
    alive: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Returns which images are left, and which had a gradient; skips batches with none alive."""
    num, num_batches = len(images), -(-len(images) // batch_size)
    size = -(-num // num_batches)
    order = jnp.argsort(~alive)  # those that are left come first, and fill whole batches
    rows = jnp.resize(order, (num_batches * size,))
    is_left = jnp.arange(len(rows)) < jnp.sum(alive)
    batches = [x.reshape(-1, size, *x.shape[1:]) for x in (images[rows], labels[rows], is_left)]
    classify = make_classifier(functions, gradient)

    def one_batch(batch: tuple[Key, jax.Array, jax.Array, jax.Array]) -> Any:
        key, images, labels, is_left = batch
        skip = lambda: (jnp.zeros(size, bool), jnp.zeros(size, bool))  # noqa: E731
        run = lambda: attack((key, classify, images, labels), epsilon)  # noqa: E731
        return jax.lax.cond(jnp.any(is_left), run, skip)

    found = map_groups(one_batch, (jax.random.split(key, num_batches), *batches))
    is_broken, had_gradient = (x.reshape(-1)[:num][jnp.argsort(order)] for x in found)
    return alive & ~is_broken, had_gradient


def _interval(end: str, withstood: np.ndarray) -> float:
    found = stats.binomtest(int(withstood.sum()), len(withstood))
    return getattr(found.proportion_ci(method="wilson"), end)


def _warn_of_masking(after: dict[str, Flags]) -> None:
    """Warns if random search broke images that attacks by gradients before it did not."""
    left = {
        name: sum(int(x.sum()) for found in flags.values() for x in found.values())
        for name, flags in after.items()
    }
    others = [number for name, number in left.items() if name != "square"]
    if others and left.get("square", math.inf) < min(others):
        warnings.warn(
            f"Random search (square) broke {min(others) - left['square']} images, over all radii, "
            "that attacks by gradients left. The classifier hides its gradients, or these attacks "
            "need more steps.",
            stacklevel=3,
        )
