"""Parts of an attack: its ball, the margins and gradients it follows, what it passes through."""

import math
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
from ebmjax.types import Key

KeyedLogitsFn = Callable[[Key, jax.Array], jax.Array]
"""``logits_fn(key, images) -> (N, classes)``; each row depends only on its image."""


Transform = Callable[[Key, jax.Array], jax.Array]
"""``transform(key, images) -> images`` of the same shape and dtype."""

Worst = tuple[jax.Array, jax.Array]
"""Image of the smallest margin so far, and that margin."""

Objective = Callable[[jax.Array], jax.Array]
"""Logits (N, classes) to the number (N,) that an attack climbs."""


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


def into_ball(
    norm: str, images: jax.Array, epsilon: Any, low: Any, high: Any, x: jax.Array
) -> jax.Array:
    """Returns ``x`` projected onto the ball around ``images``, then onto the box [low, high]."""
    inside = images + BALLS[norm].project(x - images, epsilon)
    return jnp.clip(inside, low, high).astype(images.dtype)


def finite_part(gradients: jax.Array) -> jax.Array:
    """Returns gradients in float32 or wider; a pixel whose derivative is NaN or infinite has 0."""
    return at_least_float32(jnp.where(jnp.isfinite(gradients), gradients, 0.0))


def round_towards(images: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``x`` in the dtype of ``images``, no coordinate farther from theirs than before."""
    rounded = x.astype(images.dtype)
    if rounded.dtype == x.dtype:
        return x
    wide = images.astype(x.dtype)
    is_farther = jnp.abs(rounded.astype(x.dtype) - wide) > jnp.abs(x - wide)
    return jnp.where(is_farther, jnp.nextafter(rounded, images), rounded)


def mean_logits(logits_fn: KeyedLogitsFn, num_eot: int, key: Key, images: jax.Array) -> jax.Array:
    """Returns the float32 mean (N, classes) of the logits of ``num_eot`` copies."""
    logits = jax.lax.map(lambda key: logits_fn(key, images), jax.random.split(key, num_eot))
    return jnp.mean(logits.astype(jnp.float32), axis=0)


def margins_of(
    logits_fn: KeyedLogitsFn, labels: jax.Array, num_eot: int, key: Key, images: jax.Array
) -> jax.Array:
    """Returns margins (N,) of the mean logits over ``num_eot`` copies."""
    return margin_and_bracket(mean_logits(logits_fn, num_eot, key, images), labels)[0]


def look(
    logits_fn: KeyedLogitsFn,
    labels: jax.Array,
    num_eot: int,
    key: Key,
    images: jax.Array,
    objective: Objective | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns ``margins_of``, the copies' mean objective (N,) and its mean gradient (N, ...).

    Without an ``objective`` it is the second of ``margin_and_bracket``.
    """

    def one_copy(key: Key) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        def climb(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            logits = logits_fn(key, x).astype(jnp.float32)
            heights = objective(logits) if objective else margin_and_bracket(logits, labels)[1]
            return jnp.sum(heights), (logits, heights)

        return jax.grad(climb, has_aux=True)(images)

    gradients, (logits, heights) = jax.lax.map(one_copy, jax.random.split(key, num_eot))
    margins, _ = margin_and_bracket(jnp.mean(logits, axis=0), labels)
    return margins, jnp.mean(heights, axis=0), jnp.mean(gradients, axis=0)


def per_image(values: jax.Array, images: jax.Array) -> jax.Array:
    """Returns one value an image, (N,), shaped to broadcast with images (N, ...)."""
    return values.reshape((-1,) + (1,) * (images.ndim - 1))


def worse(worst: Worst, images: jax.Array, margins: jax.Array) -> Worst:
    """Returns, for each image, whichever has the smaller margin."""
    is_worse = margins < worst[1]
    images = jnp.where(per_image(is_worse, images), images, worst[0])
    return images, jnp.where(is_worse, margins, worst[1])


def is_usable(gradients: jax.Array) -> jax.Array:
    """Returns which images (N,) have a gradient (N, ...) that is finite and not zero everywhere."""
    flat = gradients.reshape(len(gradients), -1)
    return jnp.all(jnp.isfinite(flat), axis=1) & jnp.any(flat != 0, axis=1)


def margin_and_bracket(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns margins, label's logit minus the largest other, and the attack's objective."""
    is_label = jax.nn.one_hot(labels, logits.shape[1], dtype=bool)
    own = jnp.sum(jnp.where(is_label, logits, 0.0), axis=1)
    others = jnp.where(is_label, -jnp.inf, logits)
    margins = own - jnp.max(others, axis=1)
    return (
        jnp.where(jnp.isnan(margins), -jnp.inf, margins),
        jax.nn.logsumexp(others, axis=1) - own,
    )


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


def check_classes(labels: jax.Array, num: int, logits_shape: tuple[int, ...]) -> None:
    """Raises unless ``labels`` (num,) are classes of logits of shape ``logits_shape``."""
    if len(logits_shape) != 2 or logits_shape[0] != num or logits_shape[1] < 2:
        raise ValueError(
            "logits_fn(key, images) must return shape (N, classes) with at least two classes, got "
            f"{logits_shape} for {num} images."
        )
    check_labels("labels", labels, (num,), logits_shape[1])


def check_attacked(
    key: Key, logits_fn: KeyedLogitsFn, images: Any, labels: Any, low: Any, high: Any
) -> tuple[jax.Array, jax.Array, int]:
    """Returns images, labels and the number of classes; raises unless they can be attacked."""
    check_images(images, low, high)
    shape = jax.eval_shape(logits_fn, key, images).shape
    check_classes(labels, len(images), shape)
    return jnp.asarray(images), jnp.asarray(labels, jnp.int32), shape[1]


def check_attack(epsilon: Any, norm: str, step_size: Any = None, **counts: int) -> None:
    """Raises unless these are a radius, a norm, a length of steps or None, and numbers above 0."""
    check_not_negative("epsilon", epsilon)
    if jnp.ndim(epsilon) != 0:
        raise ValueError(
            f"epsilon must be one radius, got shape {jnp.shape(epsilon)}. For several see "
            "robust_accuracy_curve."
        )
    if norm not in BALLS:
        raise ValueError(f"norm must be one of {', '.join(map(repr, BALLS))}, got {norm=}.")
    if step_size is not None:
        check_positive("step_size", step_size)
    for name, count in counts.items():
        check_at_least(name, count, 1)
