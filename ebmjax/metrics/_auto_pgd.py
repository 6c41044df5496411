"""Projected gradient descent that chooses its steps by itself: APGD of AutoAttack."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._precision import at_least_float32
from ebmjax._programs import run_program
from ebmjax.metrics import _attack_steps as steps
from ebmjax.metrics._robustness import PGDResult, warn_without_gradient
from ebmjax.types import Key

CLASSES = {"ce": 2, "dlr": 3, "dlr_targeted": 4}
"""Losses, and the least number of classes of each."""

SHARE, MOMENTUM, TINY = 0.75, 0.75, 1e-12
"""Steps that must climb, weight of the new step, and what keeps a ratio of logits finite."""


def apgd_attack(
    key: Key,
    logits_fn: steps.KeyedLogitsFn,
    images: jax.Array,
    labels: jax.Array,
    *,
    epsilon: Any,
    norm: Literal["linf", "l2"],
    loss: Literal["ce", "dlr", "dlr_targeted"] = "ce",
    num_steps: int = 100,
    num_restarts: int = 1,
    num_targets: int = 9,
    random_start: bool = True,
    num_eot: int = 1,
    low: Any = -1.0,
    high: Any = 1.0,
) -> PGDResult:
    r"""Looks for a misclassified image within ``epsilon`` by AutoAttack's APGD.

    Steps are two radii long at first, and have momentum:

    .. math::
        z = \Pi(x_k + \eta\, d(g_k)), \qquad
        x_{k+1} = \Pi\big(x_k + \tfrac34 (z - x_k) + \tfrac14 (x_k - x_{k-1})\big).

    At a checkpoint, an image may go back to its best point with half its step. It does so if at
    most three quarters of the steps since the last checkpoint raised its loss. It also does so if
    neither its step nor its best loss changed there. Every tried image is judged.

    Args:
      key, logits_fn, images, labels, epsilon, norm, num_restarts, random_start, low, high: as for
        ``pgd_attack``.
      loss: "ce" climbs as cross-entropy does, without its rounding to zero. "dlr", the difference
        of logits ratio, ignores the logits' scale and needs 3 classes. "dlr_targeted" needs 4, and
        goes towards each of ``num_targets`` classes in turn, the likeliest first.
      num_steps: steps of a restart, at least 1.
      num_targets: see ``loss``.
      num_eot: copies whose mean gradient, loss and logits count.

    Returns:
      A ``PGDResult``.

    Source: Croce & Hein 2020, "Reliable evaluation of adversarial robustness with an ensemble of
    diverse parameter-free attacks", Algorithm 1, equations 6 and 7.

    Example:
      >>> logits_fn = lambda key, x: jnp.stack([x[:, 0], -x[:, 0]], axis=1)
      >>> attacked = logits_fn, jnp.array([[0.3], [0.5]]), jnp.array([0, 0])
      >>> apgd_attack(jax.random.key(0), *attacked, epsilon=0.4, norm="linf").is_correct.tolist()
      [False, True]
    """
    counts = {"num_steps": num_steps, "num_restarts": num_restarts, "num_targets": num_targets}
    steps.check_attack(epsilon, norm, **counts, num_eot=num_eot)
    images, labels, num_classes = steps.check_attacked(key, logits_fn, images, labels, low, high)
    able = [name for name, least in CLASSES.items() if least <= num_classes]
    if loss not in able:
        raise ValueError(f"loss must be one of {able} for {num_classes} classes, got {loss=}.")
    ball, windows = steps.BALLS[norm], checkpoint_windows(num_steps)
    weights = np.where(np.arange(num_steps) > 0, MOMENTUM, 1.0).astype(np.float32)

    def attack(key: Key, images: jax.Array, labels: jax.Array, epsilon: Any) -> PGDResult:
        wide = at_least_float32(images)
        project = partial(steps.into_ball, norm, wide, epsilon, low, high)
        clean_key, runs_key = jax.random.split(key)
        logits = steps.mean_logits(logits_fn, num_eot, clean_key, images)
        clean = images, steps.margin_and_bracket(logits, labels)[0]
        targets = rank_targets(logits, labels, num_targets if loss == "dlr_targeted" else 1)
        targets = jnp.repeat(targets, num_restarts, axis=0)

        def judge(target: jax.Array, worst: steps.Worst, key: Key, x: jax.Array) -> Any:
            """Returns the point (image, loss, gradient), and what it changes."""
            judged, climb = steps.round_towards(images, x), partial(_climb, loss, labels, target)
            margins, height, slopes = steps.look(logits_fn, labels, num_eot, key, judged, climb)
            worst = steps.worse(worst, judged, margins)
            usable = steps.is_usable(slopes) | (worst[1] <= 0)
            return (x, height, steps.finite_part(slopes)), worst, usable

        def step(target: jax.Array, carry: Any, inputs: Any) -> tuple[Any, None]:
            now, before, best, length, num_rises, best_then, was_halved, worst, usable = carry
            (x, _, slopes), (key, weight, window) = now, inputs
            moved = project(x + steps.per_image(length, x) * ball.direction(slopes))
            moved = project(x + weight * (moved - x) + (1 - weight) * (x - before[0]))
            new, worst, is_usable = judge(target, worst, key, moved)
            best = _choose(new[1] > best[1], new, best)
            num_rises += new[1] > before[1]
            is_check = window > 0
            is_stuck = ~was_halved & (best[1] <= best_then)
            halves = is_check & ((num_rises <= SHARE * window) | is_stuck)
            now = _choose(halves, best, new)
            length = jnp.where(halves, length / 2, length)
            num_rises = jnp.where(is_check, 0, num_rises)
            best_then = jnp.where(is_check, best[1], best_then)
            was_halved = jnp.where(is_check, halves, was_halved)
            before = x, new[1]
            usable &= is_usable
            return (
                now,
                before,
                best,
                length,
                num_rises,
                best_then,
                was_halved,
                worst,
                usable,
            ), None

        def run(carry: tuple[steps.Worst, jax.Array], keyed: tuple[Key, jax.Array]) -> Any:
            (worst, had_before), (key, target) = carry, keyed
            start_key, first_key, steps_key = jax.random.split(key, 3)
            noise = ball.sample(start_key, wide.shape, wide.dtype)
            start = project(wide + epsilon * noise) if random_start else wide
            point, worst, usable = judge(target, worst, first_key, start)
            length = jnp.full(len(images), 2.0 * epsilon, wide.dtype)
            rises, halved = jnp.zeros(len(images), jnp.int32), jnp.ones(len(images), bool)
            begin = point, point[:2], point, length, rises, point[1], halved, worst, usable
            inputs = jax.random.split(steps_key, num_steps), weights, windows
            (*_, worst, usable), _ = jax.lax.scan(partial(step, target), begin, inputs)
            return (worst, had_before | usable), None

        needs_none = jnp.full(len(images), jnp.asarray(epsilon) == 0)
        keyed = jax.random.split(runs_key, len(targets)), targets
        ((adversarial, margins), had_gradient), _ = jax.lax.scan(run, (clean, needs_none), keyed)
        had_gradient |= margins <= 0
        return PGDResult(adversarial, (margins > 0) & had_gradient, margins, had_gradient)

    found = run_program(attack, key, images, labels, epsilon)
    warn_without_gradient(found.had_gradient)
    return found


def _climb(loss: str, labels: jax.Array, targets: jax.Array, logits: jax.Array) -> jax.Array:
    margins, bracket = steps.margin_and_bracket(logits, labels)
    if loss == "ce":
        return bracket
    first, third, fourth = (jnp.sort(logits, axis=1)[:, -k] for k in (1, 3, min(4, CLASSES[loss])))
    if loss == "dlr":
        return -margins / (first - third + TINY)
    return gaps_to(labels, targets, logits) / (first - (third + fourth) / 2 + TINY)


def _choose(condition: jax.Array, one: Any, other: Any) -> Any:
    """Returns, for each image, arrays of ``one`` where the condition (N,) holds."""
    pick = lambda a, b: jnp.where(steps.per_image(condition, a), a, b)  # noqa: E731
    return jax.tree.map(pick, one, other)


def gaps_to(labels: jax.Array, targets: jax.Array, logits: jax.Array) -> jax.Array:
    """Returns the targets' logits minus the labels', (N,)."""
    both = jnp.take_along_axis(logits, jnp.stack([targets, labels], axis=1), axis=1)
    return both[:, 0] - both[:, 1]


def rank_targets(logits: jax.Array, labels: jax.Array, num_targets: int) -> jax.Array:
    """Returns the likeliest classes that are not the label, best first, (num_targets, N)."""
    is_label = jax.nn.one_hot(labels, logits.shape[1], dtype=bool)
    others = jnp.where(is_label, -jnp.inf, logits)
    return jnp.argsort(-others, axis=1)[:, : min(num_targets, logits.shape[1] - 1)].T


def checkpoint_windows(num_steps: int) -> np.ndarray:
    """Returns, for each step, the steps since the last checkpoint, or 0 if it is none.

    Checkpoints lie at 22 %, 41 %, 57 %, ... of the steps, rounded up: gaps shrink by 3 %, to 6 %.
    """
    percents = np.cumsum([22, 19, 16, 13, 10, 7, 6, 6])
    checkpoints = np.unique(-(-percents * num_steps // 100))
    windows = np.zeros(num_steps, np.int32)
    windows[checkpoints - 1] = np.diff(checkpoints, prepend=0)
    return windows
