"""Nearest misclassified images, by steps onto the linearised decision boundary: FAB."""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.metrics import _attack_steps as steps
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

    Source: Croce & Hein 2020, "Minimally distorted adversarial examples with a fast adaptive
    boundary attack"; as in AutoAttack's code, without restarts and a final search.

    Example:
      >>> logits_fn = lambda key, x: jnp.stack([x[:, 0], -x[:, 0]], axis=1)
      >>> attack = logits_fn, jnp.array([[0.3]]), jnp.array([0])
      >>> 0.3 < float(fab_attack(jax.random.key(0), *attack, norm="l2").distance[0]) < 0.303
      True
    """

    def search(key: Key, attack: steps.Attack) -> FABResult:
        wide, (clean_key, runs_key) = attack.wide, jax.random.split(key)
        nearest = partial(nearest_on_plane, norm=norm, low=low, high=high)

        def length(d: jax.Array) -> jax.Array:
            if norm == "l2":
                return steps.norms_of(d).reshape(len(d))
            return jnp.max(jnp.abs(d), axis=tuple(range(1, d.ndim)))

        def move(target: jax.Array, carry: Any, key: Key) -> tuple[Any, None]:
            (x, found, had_gradient), (look_key, judge_key) = carry, jax.random.split(key)
            _, gap, slopes, usable = attack.look(look_key, x, target)
            gap = jnp.where(jnp.isfinite(gap), gap, 0.0)
            back = jnp.sum(slopes * (x - wide), axis=tuple(range(1, x.ndim)))
            here, there = nearest(x, slopes, -gap), nearest(wide, slopes, back - gap)
            near, far = (jnp.maximum(length(d), 1e-8) for d in (here, there))
            bias = steps.per_image(jnp.minimum(near / (near + far), BIAS), x)
            x = (x + OVERSHOOT * here) * (1 - bias) + (wide + OVERSHOOT * there) * bias
            x = jnp.clip(x, low, high).astype(wide.dtype)
            is_broken = attack.margins(judge_key, x) <= 0
            reach = length(steps.round_towards(attack.images, x).astype(wide.dtype) - wide)
            found = steps.keep_least(found, x, jnp.where(is_broken, reach, jnp.inf))
            x = steps.choose(is_broken, wide + BACKWARD * (x - wide), x)
            return (x, found, had_gradient & usable), None

        def run(carry: Any, keyed: tuple[Key, jax.Array]) -> tuple[Any, None]:
            (found, had_before), (key, target) = carry, keyed
            begin, keys = (wide, found, jnp.ones(len(wide), bool)), jax.random.split(key, num_steps)
            (_, found, usable), _ = jax.lax.scan(partial(move, target), begin, keys)
            return (found, had_before | usable), None

        (_, margins), targets = attack.begin(clean_key)
        nothing = wide, jnp.where(margins <= 0, 0.0, jnp.inf).astype(wide.dtype)
        keyed = jax.random.split(runs_key, len(targets)), targets
        ((x, distance), usable), _ = jax.lax.scan(run, (nothing, margins <= 0), keyed)
        return FABResult(steps.round_towards(attack.images, x), distance, usable)

    ball = 0.0, norm, num_eot, low, high
    attack = steps.Attack(logits_fn, images, labels, *ball, num_steps, num_targets, "gap")
    return steps.run_attack(search, key, attack)


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
    left = jnp.cumsum(slope[:, ::-1], axis=1)[:, ::-1]
    sums = jnp.cumsum(full, axis=1) - full + walls * left
    walls, sums = (jnp.pad(a, ((0, 0), (1, 0))) for a in (walls, sums))
    reach = jax.vmap(jnp.interp)(jnp.abs(amount), sums, walls)
    return (toward * jnp.minimum(reach * speed, room)).reshape(shape)
