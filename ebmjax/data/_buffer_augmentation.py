"""Augmentation of chains' starts, as in improved contrastive divergence."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_fraction, check_interval, check_not_negative, check_positive
from ebmjax.data._augment import _check_batch, random_flip
from ebmjax.types import Key

MAX_ASPECT = 4 / 3
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue, ITU-R BT.601


def augment_starts(
    key: Key,
    images: jax.Array,
    *,
    low: float = -1.0,
    high: float = 1.0,
    min_area: float = 0.08,
    is_flipped: bool = True,
    jitter_prob: Any = 0.8,
    grey_prob: Any = 0.2,
    max_blur: Any = 0.0,
) -> jax.Array:
    """Changes each image in ways that leave it an image, before its chain continues.

    Chains of a few steps do not leave their mode. A crop, a mirror image or another tint is a move
    that they would not make; later steps repair the image. The defaults are the published code's
    for CIFAR-10: ``random_resized_crop``, ``random_flip``, ``random_colour_jitter`` and
    ``random_grey``, in this order. ``random_blur`` follows if ``max_blur`` is above 0, as for other
    data sets. For digits use ``is_flipped=False`` (a mirrored 2 is not a 2) and a larger
    ``min_area``.

    Use it for starts from the buffer, not for new starts, which are noise, and not for data.

    Args:
      key: split; each image draws its own.
      images: floating point (N, height, width, channels) within ``[low, high]``.
      low, high: darkest and brightest level.
      min_area: see ``random_resized_crop``; 1 for no crop.
      is_flipped: whether half of the images are mirrored (static).
      jitter_prob: share of images whose colours change; may be traced.
      grey_prob: share of colour images that turn grey; may be traced.
      max_blur: see ``random_blur``.

    Returns:
      The shape and dtype of ``images``, within ``[low, high]``.

    Source: Du et al. 2021, section 3.3; sampling-approaches thesis, Alg. 7.

    Example:
      >>> starts = jax.random.uniform(jax.random.key(0), (5, 8, 8, 3), minval=-1.0)
      >>> augment_starts(jax.random.key(1), starts).shape
      (5, 8, 8, 3)
    """
    crop_key, flip_key, jitter_key, grey_key, blur_key = jax.random.split(key, 5)
    images = random_resized_crop(crop_key, images, min_area=min_area)
    if is_flipped:
        images = random_flip(flip_key, images)
    images = random_colour_jitter(jitter_key, images, probability=jitter_prob, low=low, high=high)
    images = random_grey(grey_key, images, probability=grey_prob)
    return random_blur(blur_key, images, max_scale=max_blur)


def random_resized_crop(key: Key, images: jax.Array, *, min_area: Any = 0.08) -> jax.Array:
    """Cuts a random rectangle out of each image and enlarges it to full size, bilinearly.

    The rectangle's area is uniform over ``[min_area, 1]``, in units of the image's. The logarithm
    of its aspect (width over height, relative to the image's) is uniform between 3/4 and 4/3, or
    nearer to 1 if the rectangle would not fit. Its place is uniform.

    Args:
      key, images: as for ``augment_starts``.
      min_area: in (0, 1]; 1 leaves images as they are; may be traced.
    """
    _check_batch(images)
    check_positive("min_area", min_area)
    check_fraction("min_area", min_area)
    num, height, width, _ = images.shape
    area_key, aspect_key, place_key = jax.random.split(key, 3)
    area = jax.random.uniform(area_key, (num,), minval=min_area, maxval=1.0)
    widest = jnp.minimum(math.log(MAX_ASPECT), -jnp.log(area))
    aspect = jnp.exp(widest * jax.random.uniform(aspect_key, (num,), minval=-1.0))
    sides = jnp.sqrt(jnp.stack([area / aspect, area * aspect], axis=1))
    corners = jax.random.uniform(place_key, (num, 2)) * (1.0 - sides)

    def crop(image: jax.Array, side: jax.Array, corner: jax.Array) -> jax.Array:
        # The point corner + side * t of the image, in units of its sides, moves to t.
        shift = -corner / side * jnp.array([height, width], side.dtype)
        return jax.image.scale_and_translate(
            image, image.shape, (0, 1), 1.0 / side, shift, "linear", antialias=False
        )

    return jax.vmap(crop)(images.astype(jnp.float32), sides, corners).astype(images.dtype)


def random_colour_jitter(
    key: Key,
    images: jax.Array,
    *,
    probability: Any = 0.8,
    brightness: Any = 0.8,
    contrast: Any = 0.8,
    saturation: Any = 0.8,
    hue: Any = 0.4,
    low: float = -1.0,
    high: float = 1.0,
) -> jax.Array:
    """Changes brightness, contrast, saturation and hue of some of the images, in this order.

    Levels count from 0 at ``low`` to 1 at ``high``. Brightness multiplies them, contrast their
    distance from the image's mean luminance, saturation their distance from the pixel's luminance.
    Each factor is uniform within 1 plus or minus the setting. Hue turns colours about the grey axis
    by an angle uniform within plus or minus ``hue`` of a full turn. Levels are clipped after each
    change. Images of one channel change in brightness and contrast only.

    Args:
      key, images, low, high: as for ``augment_starts``, with 1 or 3 channels.
      probability: probability that an image changes at all.
      brightness, contrast, saturation: from 0 to 1.
      hue: from 0 to 1/2 (all colours).
    """
    _check_colours(images)
    check_interval(low, high)
    settings = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
    for name, value in {"probability": probability, **settings, "twice hue": 2 * hue}.items():
        check_fraction(name, value)
    hue_key, chosen_key, *keys = jax.random.split(key, 5)
    shape = (len(images), 1, 1, 1)

    def factor(key: Key, name: str) -> jax.Array:
        return 1.0 + settings[name] * jax.random.uniform(key, shape, minval=-1.0)

    levels = (images.astype(jnp.float32) - low) / (high - low)
    changed = _clip(levels * factor(keys[0], "brightness"))
    mean = jnp.mean(_luminance(changed), axis=(1, 2, 3), keepdims=True)
    changed = _clip(mean + (changed - mean) * factor(keys[1], "contrast"))
    if images.shape[-1] == 3:
        grey = _luminance(changed)
        changed = _clip(grey + (changed - grey) * factor(keys[2], "saturation"))
        turns = hue * jax.random.uniform(hue_key, shape[:1], minval=-1.0)
        changed = _clip(_turn_colours(changed, turns))
    is_chosen = jax.random.bernoulli(chosen_key, probability, shape)
    return jnp.where(is_chosen, low + (high - low) * changed, images).astype(images.dtype)


def random_grey(key: Key, images: jax.Array, *, probability: Any = 0.2) -> jax.Array:
    """Replaces the three channels of some images by their luminance; keeps a single channel.

    Args:
      key, images: as for ``augment_starts``, with 1 or 3 channels.
      probability: of each image; may be traced.
    """
    _check_colours(images)
    check_fraction("probability", probability)
    is_grey = jax.random.bernoulli(key, probability, (len(images), 1, 1, 1))
    return jnp.where(is_grey, _luminance(images), images)


def random_blur(key: Key, images: jax.Array, *, max_scale: Any) -> jax.Array:
    """Blurs each image by a Gaussian whose standard deviation is uniform in [0, max_scale] pixels.

    The weights sum to 1 over existing pixels, also at the border.

    Args:
      key, images: as for ``augment_starts``.
      max_scale: at least 0; may be traced.
    """
    _check_batch(images)
    check_not_negative("max_scale", max_scale)
    scales = jnp.asarray(max_scale) * jax.random.uniform(key, (len(images), 1, 1))
    rows, columns = (_gaussian_weights(side, scales) for side in images.shape[1:3])
    blurred = jnp.einsum(
        "nih,njw,nhwc->nijc", rows, columns, images.astype(jnp.float32), precision="highest"
    )
    return blurred.astype(images.dtype)


def _gaussian_weights(side: int, scales: jax.Array) -> jax.Array:
    """Returns (N, side, side): the weight of each pixel in each other, along one axis."""
    places = jnp.arange(side, dtype=scales.dtype)
    offsets = places[:, None] - places[None, :]
    # A scale of 0 must not divide; at 0.01 only the pixel itself has weight.
    return jax.nn.softmax(-0.5 * jnp.square(offsets[None] / jnp.maximum(scales, 0.01)), axis=-1)


def _turn_colours(images: jax.Array, turns: jax.Array) -> jax.Array:
    """Rotates colours (N, H, W, 3) about the axis of greys by ``turns`` (N,) of a full turn."""
    angle = 2.0 * jnp.pi * turns[:, None, None]
    across = jnp.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3)
    along = jnp.full((1, 3, 3), 1 / 3)
    rotation = along + jnp.cos(angle) * (jnp.eye(3)[None] - along) + jnp.sin(angle) * across[None]
    return jnp.einsum("nhwc,ndc->nhwd", images, rotation, precision="highest")


def _luminance(images: jax.Array) -> jax.Array:
    """Returns (N, H, W, 1): the weighted sum of three channels, or the only channel."""
    if images.shape[-1] == 1:
        return images
    weights = jnp.array(LUMINANCE, images.dtype).reshape(1, 1, 1, 3)
    return jnp.sum(images * weights, axis=-1, keepdims=True)


def _clip(levels: jax.Array) -> jax.Array:
    return jnp.clip(levels, 0.0, 1.0)


def _check_colours(images: jax.Array) -> None:
    _check_batch(images)
    if images.shape[-1] not in (1, 3):
        raise ValueError(
            f"images must have 1 (grey) or 3 (red, green, blue) channels, got shape {images.shape}."
        )
