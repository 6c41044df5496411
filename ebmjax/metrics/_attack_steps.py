"""Parts of an attack: its ball, the margins and gradients it follows, what it passes through."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ebmjax._checks import (
    check_at_least,
    check_floating,
    check_interval,
    check_labels,
    check_not_negative,
    check_positive,
)
from ebmjax._precision import at_least_float32, root
from ebmjax._programs import run_program
from ebmjax.types import Key

KeyedLogitsFn = Callable[[Key, jax.Array], jax.Array]
"""``logits_fn(key, images) -> (N, classes)``; each row depends only on its image."""


Transform = Callable[[Key, jax.Array], jax.Array]
"""``transform(key, images) -> images`` of the same shape and dtype."""

Best = tuple[jax.Array, jax.Array]
"""Images (N, ...) of the least numbers (N,) so far, such as margins, and these numbers."""

CLASSES = {"ce": 2, "dlr": 3, "dlr_targeted": 4}
"""Losses of ``apgd_attack``, and the least number of classes of each."""

TINY = 1e-12
"""Keeps a ratio of logits finite."""


class PGDResult(NamedTuple):
    """Results of an attack on N images.

    Attributes:
      adversarial: shaped like the images; the tried image with the smallest margin, over every step
        of every restart, the clean image included.
      is_correct: bool (N,); False if any tried image was misclassified (``margin <= 0``), and where
        ``had_gradient`` is False, because an attack that cannot move shows nothing.
      margin: float32 (N,), the smallest margin: the label's logit minus the largest other one.
      had_gradient: bool (N,); whether a restart had a usable gradient at each of its steps: finite,
        and not zero at every pixel. A broken image and a radius of 0 need none: True.
    """

    adversarial: jax.Array
    is_correct: jax.Array
    margin: jax.Array
    had_gradient: jax.Array


class Ball(NamedTuple):
    """Ball of a norm for (N, ...) displacements, one an image."""

    direction: Callable[[jax.Array], jax.Array]
    project: Callable[[jax.Array, Any], jax.Array]
    sample: Callable[..., jax.Array]


def norms_of(x: jax.Array) -> jax.Array:
    """Returns Euclidean norms, shaped to broadcast; scales first, so squares do not underflow."""
    axes = tuple(range(1, x.ndim))
    largest = jnp.max(jnp.abs(x), axis=axes, keepdims=True)
    scaled = x / jnp.where(largest > 0, largest, 1.0)
    return largest * root(jnp.sum(scaled**2, axis=axes, keepdims=True))


def _unit(x: jax.Array) -> jax.Array:
    norms = norms_of(x)
    return x / jnp.where(norms > 0, norms, 1.0)


def _project_l2(x: jax.Array, epsilon: Any) -> jax.Array:
    norms = norms_of(x)
    return jnp.where(norms > epsilon, x * (epsilon / jnp.where(norms > 0, norms, 1.0)), x)


def _sample_l2(key: Key, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    direction_key, radius_key = jax.random.split(key)
    directions = _unit(jax.random.normal(direction_key, shape, dtype))
    radii = jax.random.uniform(radius_key, (shape[0],) + (1,) * (len(shape) - 1), dtype)
    return directions * radii ** (1.0 / math.prod(shape[1:]))


BALLS = {
    "linf": Ball(
        direction=jnp.sign,
        project=lambda x, epsilon: jnp.clip(x, -epsilon, epsilon),
        sample=partial(jax.random.uniform, minval=-1.0, maxval=1.0),
    ),
    "l2": Ball(direction=_unit, project=_project_l2, sample=_sample_l2),
}


class Attack(NamedTuple):
    """Settings of an attack, the images that it moves, and the classifier that judges them.

    Images move in float32 or wider, where a step is not rounded away. The classifier sees them in
    their own dtype, rounded towards the clean images.
    """

    logits_fn: KeyedLogitsFn
    images: jax.Array
    labels: jax.Array
    epsilon: Any
    norm: str
    num_eot: int
    low: Any
    high: Any
    num_steps: int
    num_targets: int = 1
    loss: str = "ce"
    num_restarts: int = 1
    random_start: bool = True
    step_size: Any = None

    @property
    def wide(self) -> jax.Array:
        """Returns the clean images in the dtype in which they move."""
        return at_least_float32(self.images)

    def project(self, x: jax.Array) -> jax.Array:
        """Returns ``x`` projected onto the ball, then onto the box [low, high]."""
        inside = self.wide + BALLS[self.norm].project(x - self.wide, self.epsilon)
        return jnp.clip(inside, self.low, self.high).astype(self.wide.dtype)

    def mean_of(self, function: Callable[[Key, jax.Array], Any], key: Key, x: jax.Array) -> Any:
        """Returns the mean of ``function(key, images)`` over ``num_eot`` copies."""
        x = round_towards(self.images, x)
        copies = jax.lax.map(lambda key: function(key, x), jax.random.split(key, self.num_eot))
        return jax.tree.map(partial(jnp.mean, axis=0), copies)

    def logits(self, key: Key, x: jax.Array) -> jax.Array:
        return self.mean_of(lambda key, x: self.logits_fn(key, x).astype(jnp.float32), key, x)

    def margins(self, key: Key, x: jax.Array) -> jax.Array:
        """Returns margins (N,) of the copies' mean logits."""
        return margins_of(self.labels, self.logits(key, x))

    def look(
        self, key: Key, x: jax.Array, targets: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Returns ``margins``, mean losses (N,), their gradient (N, ...), and whether it is usable.

        A usable gradient (N,) is finite and not zero everywhere. A pixel whose derivative is NaN or
        infinite has 0.
        """

        def climb(x: jax.Array, key: Key) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            logits = self.logits_fn(key, x).astype(jnp.float32)
            heights = losses_of(self.loss, self.labels, targets, logits)
            return jnp.sum(heights), (logits, heights)

        copy = lambda key, x: jax.grad(climb, has_aux=True)(x, key)  # noqa: E731
        slopes, (logits, heights) = self.mean_of(copy, key, x)
        is_finite, axes = jnp.isfinite(slopes), tuple(range(1, x.ndim))
        usable = jnp.all(is_finite, axis=axes) & jnp.any(slopes != 0, axis=axes)
        slopes = at_least_float32(jnp.where(is_finite, slopes, 0.0))
        return margins_of(self.labels, logits), heights, slopes, usable

    def begin(self, key: Key) -> tuple[Best, jax.Array]:
        """Returns the clean images with margins, and the likeliest wrong classes (targets, N)."""
        logits = self.logits(key, self.wide)
        wrong = jnp.argsort(-split_logits(self.labels, logits)[1], axis=1).T[:-1]
        num = 1 if self.loss in ("ce", "dlr") else self.num_targets
        return (self.wide, margins_of(self.labels, logits)), wrong[:num]

    def result(self, worst: Best, had_gradient: Any) -> PGDResult:
        adversarial, margins = round_towards(self.images, worst[0]), worst[1]
        had_gradient |= margins <= 0
        return PGDResult(adversarial, (margins > 0) & had_gradient, margins, had_gradient)


def run_attack(search: Callable[[Key, Attack], Any], key: Key, attack: Attack) -> Any:
    """Returns ``search(key, attack)`` by one program, and warns of images it could not move.

    Raises an error unless the settings and the images can be attacked: see ``pgd_attack``.
    """
    check_not_negative("epsilon", attack.epsilon)
    if jnp.ndim(attack.epsilon) != 0:
        raise ValueError(
            f"epsilon must be one radius, got shape {jnp.shape(attack.epsilon)}. For several see "
            "robust_accuracy_curve."
        )
    if attack.norm not in BALLS:
        known = ", ".join(map(repr, BALLS))
        raise ValueError(f"norm must be one of {known}, got norm={attack.norm!r}.")
    if attack.step_size is not None:
        check_positive("step_size", attack.step_size)
    for name in ("num_steps", "num_restarts", "num_targets", "num_eot"):
        check_at_least(name, getattr(attack, name), 1)
    check_images(attack.images, attack.low, attack.high)
    num, shape = len(attack.images), jax.eval_shape(attack.logits_fn, key, attack.images).shape
    if len(shape) != 2 or shape[0] != num or shape[1] < 2:
        raise ValueError(
            "logits_fn(key, images) must return shape (N, classes) with at least two classes, got "
            f"{shape} for {num} images."
        )
    check_labels("labels", attack.labels, (num,), shape[1])
    arrays = {"images": jnp.asarray(attack.images), "labels": jnp.asarray(attack.labels, jnp.int32)}
    arrays |= {"epsilon": attack.epsilon, "step_size": attack.step_size}
    found = run_program(lambda key, arrays: search(key, attack._replace(**arrays)), key, arrays)
    warn_without_gradient(found.had_gradient)
    return found


def climb(
    key: Key,
    attack: Attack,
    step: Callable[[Any, Any, Any], tuple[jax.Array, Any]],
    memory: Any = None,
    inputs: Any = None,
) -> PGDResult:
    """Returns the worst images over restarts that go up the loss, towards each target.

    ``step(point, memory, input)`` returns the next images (N, ...) and memory. A point is images,
    their losses (N,) and finite gradients (N, ...). Each restart begins with ``memory``. Inputs are
    (num_steps, ...), one for each step.
    """
    wide, (clean_key, runs_key) = attack.wide, jax.random.split(key)
    clean, targets = attack.begin(clean_key)

    def move(target: jax.Array, carry: Any, keyed: tuple[Key, Any]) -> tuple[Any, None]:
        (x, worst, had_gradient, memory), (key, now) = carry, keyed
        margins, heights, slopes, usable = attack.look(key, x, target)
        worst = keep_least(worst, x, margins)
        x, memory = step((x, heights, slopes), memory, now)
        return (x, worst, had_gradient & (usable | (worst[1] <= 0)), memory), None

    def run(carry: tuple[Best, jax.Array], keyed: tuple[Key, jax.Array]) -> tuple[Any, None]:
        (worst, had_before), (key, target) = carry, keyed
        start_key, steps_key, last_key = jax.random.split(key, 3)
        noise = BALLS[attack.norm].sample(start_key, wide.shape, wide.dtype)
        start = attack.project(wide + attack.epsilon * noise) if attack.random_start else wide
        begin = start, worst, jnp.ones(len(wide), bool), memory
        keys = jax.random.split(steps_key, attack.num_steps)
        (x, worst, usable, _), _ = jax.lax.scan(partial(move, target), begin, (keys, inputs))
        worst = keep_least(worst, x, attack.margins(last_key, x))
        return (worst, had_before | usable), None

    targets = jnp.repeat(targets, attack.num_restarts, axis=0)
    needs_none = jnp.full(len(wide), jnp.asarray(attack.epsilon) == 0)
    keyed = jax.random.split(runs_key, len(targets)), targets
    return attack.result(*jax.lax.scan(run, (clean, needs_none), keyed)[0])


def round_towards(images: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``x`` in the dtype of ``images``, no coordinate farther from theirs than before."""
    rounded = x.astype(images.dtype)
    if rounded.dtype == x.dtype:
        return x
    wide = images.astype(x.dtype)
    is_farther = jnp.abs(rounded.astype(x.dtype) - wide) > jnp.abs(x - wide)
    return jnp.where(is_farther, jnp.nextafter(rounded, images), rounded)


def choose(condition: jax.Array, one: Any, other: Any) -> Any:
    """Returns, for each image, arrays (N, ...) of ``one`` where the condition (N,) holds."""
    pick = lambda a, b: jnp.where(per_image(condition, a), a, b)  # noqa: E731
    return jax.tree.map(pick, one, other)


def keep_least(best: Best, images: jax.Array, numbers: jax.Array) -> Best:
    """Returns, for each image, whichever has the smaller number."""
    return choose(numbers < best[1], (images, numbers), best)


def per_image(values: jax.Array, images: jax.Array) -> jax.Array:
    """Returns one value an image, (N,), shaped to broadcast with images (N, ...)."""
    return values.reshape((-1,) + (1,) * (images.ndim - 1))


def split_logits(labels: jax.Array, logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the labels' logits (N,), and logits (N, classes) with -inf in their place."""
    is_label = jax.nn.one_hot(labels, logits.shape[1], dtype=bool)
    own = jnp.sum(jnp.where(is_label, logits, 0.0), axis=1)
    return own, jnp.where(is_label, -jnp.inf, logits)


def margins_of(labels: jax.Array, logits: jax.Array) -> jax.Array:
    """Returns margins (N,): the label's logit minus the largest other; -inf where it is NaN."""
    own, others = split_logits(labels, logits)
    margins = own - jnp.max(others, axis=1)
    return jnp.where(jnp.isnan(margins), -jnp.inf, margins)


def losses_of(loss: str, labels: jax.Array, targets: jax.Array, logits: jax.Array) -> jax.Array:
    """Returns losses (N,) of ``apgd_attack``, or for "gap" targets' logits minus labels'."""
    able = [name for name, least in CLASSES.items() if least <= logits.shape[1]]
    if loss not in (*able, "gap"):
        raise ValueError(f"loss must be one of {able} for {logits.shape[1]} classes, got {loss=}.")
    own, others = split_logits(labels, logits)
    gaps = jnp.take_along_axis(logits, targets[:, None], axis=1)[:, 0] - own
    if loss in ("ce", "gap"):
        return jax.nn.logsumexp(others, axis=1) - own if loss == "ce" else gaps
    first, third, fourth = (jnp.sort(logits, axis=1)[:, -k] for k in (1, 3, min(4, CLASSES[loss])))
    if loss == "dlr":
        return -margins_of(labels, logits) / (first - third + TINY)
    return gaps / (first - (third + fourth) / 2 + TINY)


def straight_through(transform: Transform) -> Transform:
    """Returns ``transform`` with the identity as its derivative: the BPDA of a purification.

    An attack through ``classifier(straight_through(purify)(key, images))`` uses the classifier's
    gradient at the purified images as the gradient at the images. Use it if the true gradient is
    zero, noise or a long chain's. It suits transforms that change an image little.

    Args:
      transform: a ``Transform``, such as a few Langevin steps from each image.

    Returns:
      The same function of ``(key, images)``.

    Source: Athalye, Carlini & Wagner 2018, section 4.1.

    Example:
      >>> quantise = straight_through(lambda key, x: jnp.round(x))
      >>> jax.value_and_grad(lambda x: quantise(jax.random.key(0), x))(0.8)
      (Array(1., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """

    def transform_straight_through(key: Key, images: jax.Array) -> jax.Array:
        images = jnp.asarray(images)
        transformed = transform(key, jax.lax.stop_gradient(images))
        if (transformed.shape, transformed.dtype) != (images.shape, images.dtype):
            raise ValueError(
                "transform must keep the images' shape and dtype, since its derivative is to be "
                f"the identity; got {transformed.shape} {transformed.dtype} from {images.shape} "
                f"{images.dtype}."
            )
        # An exact zero whose derivative is the identity, so the value stays the transform's.
        return transformed + (images - jax.lax.stop_gradient(images))

    return transform_straight_through


def check_images(images: jax.Array, low: Any, high: Any) -> None:
    """Raises unless ``images`` are floating point (N, ...), in [low, high] where concrete."""
    check_floating("images", images)
    check_interval(low, high)
    if jnp.ndim(images) < 2 or 0 in jnp.shape(images):
        raise ValueError(f"images must have shape (N, ...), none empty, got {jnp.shape(images)}.")
    if any(isinstance(value, Tracer) for value in (images, low, high)):
        return
    pixels = np.asarray(images)
    outside = np.count_nonzero(~((pixels >= low) & (pixels <= high)))  # NaN is outside too
    if outside:
        raise ValueError(
            f"images must lie within [low, high] = [{low}, {high}]; {outside} of {pixels.size} "
            "pixels do not, or are NaN. Attack images before noise is added, or give their range."
        )


def warn_without_gradient(had_gradient: jax.Array) -> None:
    """Warns if concrete flags ``had_gradient``, of images on the last axis, are not all True."""
    if isinstance(had_gradient, Tracer) or np.all(had_gradient):
        return
    num = had_gradient.shape[-1]
    least = int(np.sum(had_gradient, axis=-1).min())
    warnings.warn(
        f"{num - least} of {num} attacked images had no usable gradient (NaN, infinite, or zero at "
        "every pixel), so the attack could not move them. They do not count as correct. Give "
        "logits, not probabilities, and a function with a derivative (straight_through).",
        stacklevel=4,
    )
