"""Projected gradient descent that chooses its steps by itself: APGD of AutoAttack."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.metrics import _attack_steps as steps
from ebmjax.metrics._attack_steps import PGDResult
from ebmjax.types import Key

SHARE, MOMENTUM = 0.75, 0.75
"""Steps that must climb, and weight of the new step."""


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

    Source: Croce & Hein 2020, "Reliable evaluation of adversarial robustness with an ensemble of
    diverse parameter-free attacks", Algorithm 1, equations 6 and 7.

    Example:
      >>> logits_fn = lambda key, x: jnp.stack([x[:, 0], -x[:, 0]], axis=1)
      >>> attacked = logits_fn, jnp.array([[0.3], [0.5]]), jnp.array([0, 0])
      >>> apgd_attack(jax.random.key(0), *attacked, epsilon=0.4, norm="linf").is_correct.tolist()
      [False, True]
    """

    def search(key: Key, attack: steps.Attack) -> PGDResult:
        wide, num, direction = attack.wide, len(images), steps.BALLS[norm].direction

        def step(point: Any, memory: Any, inputs: Any) -> tuple[jax.Array, Any]:
            before, last, best, length, num_rises, best_then, was_halved = memory
            (_, height, _), (weight, window) = point, inputs
            best = steps.choose(height > best[1], point, best)
            num_rises += height > last
            is_stuck = ~was_halved & (best[1] <= best_then)
            halves = (window > 0) & ((num_rises <= SHARE * window) | is_stuck)
            x, _, slopes = steps.choose(halves, best, point)
            length = jnp.where(halves, length / 2, length)
            num_rises = jnp.where(window > 0, 0, num_rises)
            best_then = jnp.where(window > 0, best[1], best_then)
            was_halved = jnp.where(window > 0, halves, was_halved)
            moved = attack.project(x + steps.per_image(length, x) * direction(slopes))
            moved = attack.project(x + weight * (moved - x) + (1 - weight) * (x - before))
            return moved, (x, height, best, length, num_rises, best_then, was_halved)

        lowest = jnp.full(num, -jnp.inf, jnp.float32)
        begin = wide, lowest, jnp.zeros_like(wide)
        length, rises = jnp.full(num, 2.0 * attack.epsilon, wide.dtype), jnp.zeros(num, jnp.int32)
        memory = wide, -lowest, begin, length, rises, lowest, jnp.ones(num, bool)
        weights = np.where(np.arange(num_steps) > 0, MOMENTUM, 1.0).astype(np.float32)
        inputs = weights, np.append(0, checkpoint_windows(num_steps)[:-1])
        return steps.climb(key, attack, step, memory, inputs)

    ball, runs = (epsilon, norm, num_eot, low, high), (loss, num_restarts, random_start)
    attack = steps.Attack(logits_fn, images, labels, *ball, num_steps, num_targets, *runs)
    return steps.run_attack(search, key, attack)


def checkpoint_windows(num_steps: int) -> np.ndarray:
    """Returns, for each step, the steps since the last checkpoint, or 0 if it is none.

    Checkpoints lie at 22 %, 41 %, 57 %, ... of the steps, rounded up: gaps shrink by 3 %, to 6 %.
    """
    percents = np.cumsum([22, 19, 16, 13, 10, 7, 6, 6])
    checkpoints = np.unique(-(-percents * num_steps // 100))
    windows = np.zeros(num_steps, np.int32)
    windows[checkpoints - 1] = np.diff(checkpoints, prepend=0)
    return windows
