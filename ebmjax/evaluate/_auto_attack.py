"""Accuracy under AutoAttack: four attacks in turn, each on the images that still withstand."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import jax
import numpy as np
from scipy import stats

from ebmjax import metrics
from ebmjax.data import ImageData
from ebmjax.evaluate._classifier import LogitsFn
from ebmjax.evaluate._robustness import (
    NORMS,
    UNITS,
    Flags,
    combine_flags,
    fractions,
    make_run,
    prepare,
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
      >>> brightness = lambda x: x.mean((1, 2, 3))[:, None] * np.array([[-1, 1]])
      >>> test = ImageData(np.full((2, 1, 1, 1), 138, np.uint8), [1, 1])  # 10.5 levels from grey
      >>> found = auto_attack(
      ...     jax.random.key(0), brightness, test, linf=(8, 16), l2=(), num_steps=5, num_queries=20
      ... )
      >>> found["linf"], list(found["after"])
      ({'8': 1.0, '16': 0.0}, ['apgd_ce', 'fab_t', 'square'])
    """
    if not attacks or isinstance(attacks, str) or set(attacks) - {*CHOICES}:
        raise ValueError(f"attacks must name at least one of {CHOICES}, got {attacks!r}.")
    test, classifiers = prepare(logits_fn, test, linf, l2, transform, gradients, batch_size)
    num, kinds = len(test.images), list(classifiers)
    num_batches = -(-num // batch_size)
    size = -(-num // num_batches)
    attacks = _fit_to_classes(attacks, jax.eval_shape(logits_fn, test.images[:1]).shape[1])
    runs = [(name, kind) for name in attacks for kind in kinds[: 1 if name == "square" else None]]
    options = {"num_steps": num_steps, "num_queries": num_queries, "num_eot": num_eot}

    def run_of(norm: str, name: str, kind: str) -> Any:
        attack = _make_attack(name, norm, **options)
        return make_run(attack, classifiers[kind], test, size, key)

    clean_key, *norm_keys = jax.random.split(key, 3)
    clean_keys = jax.random.split(clean_key, num_batches)
    clean = ~run_of("linf", "clean", kinds[0])(clean_keys, 0, np.ones(num, bool))[0]
    usable: Flags = {}
    after: dict[str, Flags] = {name: {} for name in attacks}
    for norm, levels, norm_key in zip(NORMS, (linf, l2), norm_keys, strict=True):
        steps, alive = [(run[0], run_of(norm, *run)) for run in runs if len(levels)], clean
        for i, level in enumerate(sorted(levels)):
            radius, moved = f"{norm}.{level:g}", np.full(num, level == 0)
            for j, (name, run) in enumerate(steps):
                if level > 0:
                    run_key = jax.random.fold_in(jax.random.fold_in(norm_key, i), j)
                    broken, had_gradient = run(jax.random.split(run_key, num_batches), level, alive)
                    alive, moved = alive & ~broken, moved | had_gradient
                after[name][radius] = alive
            usable[radius] = moved | ~alive
    withstood = combine_flags(np.logical_and, after[attacks[-1]], usable)
    warn_without_gradient(usable)
    _warn_of_masking(after)
    return {
        **fractions(withstood),
        "clean": float(clean.mean()),
        "low": fractions(withstood, lambda x: _wilson(x).low),
        "high": fractions(withstood, lambda x: _wilson(x).high),
        "after": {name: fractions(flags) for name, flags in after.items()},
        "usable_gradient": fractions(usable),
        "protocol": {
            "attacks": list(attacks),
            "num_images": num,
            **options,
            "gradients": kinds,
            "units": UNITS,
        },
        "per_image": withstood,
    }


def _fit_to_classes(attacks: Sequence[str], num_classes: int) -> tuple[str, ...]:
    """Returns the attacks that logits of so many classes allow, each once."""
    if num_classes == 3:
        attacks = ["apgd_dlr" if name == "apgd_t" else name for name in attacks]
    if num_classes == 2:
        attacks = [name for name in attacks if name not in ("apgd_dlr", "apgd_t")]
    return tuple(dict.fromkeys(attacks)) or ("apgd_ce",)


def _make_attack(name: str, norm: Any, num_steps: int, num_queries: int, num_eot: int) -> Any:
    options: dict[str, Any] = {"norm": norm, "num_eot": num_eot}
    if name == "square":
        return partial(metrics.square_attack, **options, num_queries=num_queries)
    if name == "clean":
        return partial(metrics.pgd_attack, **options, num_steps=1)
    options["num_steps"] = num_steps
    if name == "fab_t":
        return lambda *attacked, epsilon: metrics.fab_attack(*attacked, **options)
    return partial(metrics.apgd_attack, **options, loss=LOSSES[name])


def _wilson(withstood: np.ndarray) -> Any:
    return stats.binomtest(int(withstood.sum()), len(withstood)).proportion_ci(method="wilson")


def _warn_of_masking(after: dict[str, Flags]) -> None:
    """Warns if random search broke images that attacks by gradients before it did not."""
    left = {name: sum(map(np.sum, flags.values())) for name, flags in after.items()}
    square = left.pop("square", math.inf)
    if square < min(left.values(), default=0):
        warnings.warn(
            f"Random search (square) broke {min(left.values()) - square} images, over all radii, "
            "that attacks by gradients left. The classifier hides its gradients, or these attacks "
            "need more steps.",
            stacklevel=3,
        )
