"""Nearest misclassified images, by steps onto the linearised decision boundary: FAB."""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._precision import at_least_float32
from ebmjax._programs import run_program
from ebmjax.metrics import _attack_steps as steps
from ebmjax.metrics._auto_pgd import gaps_to, rank_targets
from ebmjax.metrics._robustness import warn_without_gradient
from ebmjax.types import Key

BIAS, OVERSHOOT, BACKWARD = 0.1, 1.05, 0.9
"""Largest weight of the original image, length of a step, and of the way back once it is broken."""

FLAT = 1e-8
"""Part of the largest slope below which a pixel's slope counts as zero."""


class FABResult(NamedTuple):
    """Nearest misclassified images found.

    Attributes:
      adversarial: shaped like the images; the clean image where none was found.
      distance: float32 (N,), in the attack's norm: 0 for a misclassified clean image, and infinite
        where nothing was found.
      had_gradient: bool (N,); whether a usable gradient led towards some class at every step.
    """

    adversarial: jax.Array
    distance: jax.Array
    had_gradient: jax.Array


def fab_attack(
    key: Key,
    logits_fn: steps.KeyedLogitsFn,
    images: jax.Array,
    labels: jax.Array,
    *,
    norm: Literal["linf", "l2"],
    num_steps: int = 100,
    num_targets: int = 9,
    num_eot: int = 1,
    low: Any = -1.0,
    high: Any = 1.0,
) -> FABResult:
    """Looks for the nearest misclassified image of each image: the targeted FAB of AutoAttack.

    One run gives the answer for all radii: an image withstands those below ``distance``.

    Steps towards a class linearise the difference of its logit and the label's. They go 5 % beyond
    the nearest point of this plane within the box, with a bias (at most 0.1) towards the point that
    is nearest to the clean image. A broken image is noted, and goes a tenth of the way back.

    Args:
      key, logits_fn, images, labels, low, high: as for ``pgd_attack``.
      norm: "linf" or "l2", of the distance.
      num_steps: steps towards each class, at least 1.
      num_targets: classes to go towards, the likeliest first.
      num_eot: copies whose mean difference, gradient and logits count.

    Returns:
      A ``FABResult``.

    Source: Croce & Hein 2020, "Minimally distorted adversarial examples with a fast adaptive
    boundary attack"; as in AutoAttack's code, without restarts and a final search.

    Example:
      >>> logits_fn = lambda key, x: jnp.stack([x[:, 0], -x[:, 0]], axis=1)
      >>> attacked = logits_fn, jnp.array([[0.3]]), jnp.array([0])
      >>> 0.3 < float(fab_attack(jax.random.key(0), *attacked, norm="l2").distance[0]) < 0.303
      True
    """
    steps.check_attack(0.0, norm, num_steps=num_steps, num_targets=num_targets, num_eot=num_eot)
    images, labels, _ = steps.check_attacked(key, logits_fn, images, labels, low, high)

    def attack(key: Key, images: jax.Array, labels: jax.Array) -> FABResult:
        wide = at_least_float32(images)
        clean_key, runs_key = jax.random.split(key)
        logits = steps.mean_logits(logits_fn, num_eot, clean_key, images)
        nearest = partial(nearest_on_plane, norm=norm, low=low, high=high)

        def length(d: jax.Array) -> jax.Array:
            if norm == "l2":
                return steps.norms_of(d).reshape(len(d))
            return jnp.max(jnp.abs(d), axis=tuple(range(1, d.ndim)))

        def move(target: jax.Array, carry: Any, key: Key) -> tuple[Any, None]:
            (x, found, distance, had_gradient), (look_key, judge_key) = carry, jax.random.split(key)
            judged, climb = steps.round_towards(images, x), partial(gaps_to, labels, target)
            _, gap, slopes = steps.look(logits_fn, labels, num_eot, look_key, judged, climb)
            had_gradient &= steps.is_usable(slopes)
            gap, slopes = jnp.where(jnp.isfinite(gap), gap, 0.0), steps.finite_part(slopes)
            back = jnp.sum(slopes * (x - wide), axis=tuple(range(1, x.ndim)))
            here, there = nearest(x, slopes, -gap), nearest(wide, slopes, back - gap)
            near, far = (jnp.maximum(length(d), 1e-8) for d in (here, there))
            bias = steps.per_image(jnp.minimum(near / (near + far), BIAS), x)
            x = (x + OVERSHOOT * here) * (1 - bias) + (wide + OVERSHOOT * there) * bias
            x = jnp.clip(x, low, high).astype(wide.dtype)
            judged = steps.round_towards(images, x)
            is_broken = steps.margins_of(logits_fn, labels, num_eot, judge_key, judged) <= 0
            reach = jnp.where(is_broken, length(at_least_float32(judged) - wide), jnp.inf)
            found = jnp.where(steps.per_image(reach < distance, x), judged, found)
            x = jnp.where(steps.per_image(is_broken, x), wide + BACKWARD * (x - wide), x)
            return (x, found, jnp.minimum(reach, distance), had_gradient), None

        def run(carry: Any, keyed: tuple[Key, jax.Array]) -> tuple[Any, None]:
            (found, distance, had_before), (key, target) = carry, keyed
            begin = wide, found, distance, jnp.ones(len(images), bool)
            keys = jax.random.split(key, num_steps)
            (_, found, distance, usable), _ = jax.lax.scan(partial(move, target), begin, keys)
            return (found, distance, had_before | usable), None

        targets = rank_targets(logits, labels, num_targets)
        is_wrong = steps.margin_and_bracket(logits, labels)[0] <= 0
        begin = images, jnp.where(is_wrong, 0.0, jnp.inf).astype(wide.dtype), is_wrong
        found, _ = jax.lax.scan(run, begin, (jax.random.split(runs_key, len(targets)), targets))
        return FABResult(*found)

    found = run_program(attack, key, images, labels)
    warn_without_gradient(found.had_gradient)
    return found


def nearest_on_plane(
    x: jax.Array, slopes: jax.Array, amount: jax.Array, *, norm: str, low: Any, high: Any
) -> jax.Array:
    r"""Returns the shortest d (N, ...) with ``slopes . d = amount`` and x + d in the box.

    With :math:`u = |w|` (l2) or 1 (linf), and :math:`r_i` the room to the wall,

    .. math::
        |d_i| = \min(\lambda u_i, r_i), \qquad \sum_i |w_i| \min(\lambda u_i, r_i) = |amount|.

    The sum is piecewise linear in lambda, so sorting the walls gives lambda exactly. Where the box
    holds no such point, every pixel goes to its wall.
    """
    shape, x, w = x.shape, x.reshape(len(x), -1), slopes.reshape(len(x), -1)
    scale = jnp.max(jnp.abs(w), axis=1, keepdims=True)
    scale = jnp.where(scale > 0, scale, 1.0)
    w = jnp.where(jnp.abs(w) > FLAT * scale, w / scale, 0.0)
    amount = amount[:, None] / scale
    toward, size = jnp.sign(amount) * jnp.sign(w), jnp.abs(w)
    speed = size if norm == "l2" else (size > 0).astype(size.dtype)
    room = jnp.where(toward > 0, high - x, x - low) * (toward != 0)
    walls = room / jnp.where(speed > 0, speed, 1.0)
    order = jnp.argsort(walls, axis=1)
    ranked = [jnp.take_along_axis(a, order, axis=1) for a in (walls, size * room, size * speed)]
    walls, full, slope = ranked
    before = jnp.cumsum(full, axis=1) - full
    left = jnp.cumsum(slope[:, ::-1], axis=1)[:, ::-1]
    k = jnp.sum(before + walls * left < jnp.abs(amount), axis=1, keepdims=True)
    last = jnp.minimum(k, walls.shape[1] - 1)
    before, left = (jnp.take_along_axis(a, last, axis=1) for a in (before, left))
    exact = (jnp.abs(amount) - before) / jnp.where(left > 0, left, 1.0)
    reach = jnp.where(k > last, walls[:, -1:], exact)
    return (toward * jnp.minimum(reach * speed, room)).reshape(shape)
