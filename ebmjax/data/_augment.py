"""Augmentation of images inside the train step, and of chains' starts."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_fraction, check_positive
from ebmjax.data._images import check_batch
from ebmjax.types import Key

MAX_ASPECT = 4 / 3
GREY_PROB = 0.2
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue, ITU-R BT.601


def reflect_pad_crop(key: Key, images: jax.Array, *, padding: int) -> jax.Array:
    """Moves each image by a random offset, filling in by reflection at the border.

    Pads every side by ``padding`` pixels, mirrored without repeating the edge, and cuts out the
    original size at one of the ``(2 padding + 1)^2`` places, all equally likely.

    Args:
      key: consumed by the places.
      images: floating point (N, height, width, channels).
      padding: pixels, from 0 to one less than the shorter side; 4 for 32x32 images in JEM.

    Returns:
      The shape and dtype of ``images``.

    Source: JEM's and SADA-JEM's published training code.
    """
    check_batch(images)
    check_at_least("padding", padding, 0)
    num, height, width, channels = images.shape
    if padding >= min(height, width):
        raise ValueError(
            f"padding must be below the images' shorter side, since a reflection reaches no "
            f"further; got {padding=} for {height}x{width} images."
        )
    margin = (padding, padding)
    padded = jnp.pad(images, ((0, 0), margin, margin, (0, 0)), mode="reflect")
    places = jax.random.randint(key, (num, 2), 0, 2 * padding + 1)

    def crop(image: jax.Array, place: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(image, (place[0], place[1], 0), (height, width, channels))

    return jax.vmap(crop)(padded, places)


def random_flip(key: Key, images: jax.Array) -> jax.Array:
    """Mirrors each image left to right with probability 1/2, independently.

    Do not use it for digits or house numbers: their mirror images are not digits. Key and images
    are those of ``reflect_pad_crop``.
    """
    check_batch(images)
    is_flipped = jax.random.bernoulli(key, shape=(images.shape[0], 1, 1, 1))
    return jnp.where(is_flipped, images[:, :, ::-1, :], images)


def augment_starts(
    key: Key,
    images: jax.Array,
    *,
    low: float = -1.0,
    high: float = 1.0,
    min_area: Any = 0.08,
    is_flipped: bool = True,
    jitter_prob: Any = 0.8,
) -> jax.Array:
    """Changes each image in ways that leave it an image, before its chain continues.

    Chains of a few steps do not leave their mode. A crop, a mirror image or another tint is a move
    that they would not make; later steps repair the image. The defaults are the published code's
    for CIFAR-10: a crop enlarged to full size, a flip, other colours, and a fifth of the images
    grey. For digits use ``is_flipped=False`` (a mirrored 2 is not a 2) and a larger ``min_area``.

    Use it for starts from the buffer, not for new starts, which are noise, and not for data.

    Args:
      key: split; each image draws its own.
      images: floating point (N, height, width, channels) within ``[low, high]``, 1 or 3 channels.
      low, high: darkest and brightest level.
      min_area: least area of a crop, as a share of the image's, in (0, 1]; 1 for no crop.
      is_flipped: whether half of the images are mirrored (static).
      jitter_prob: share of images whose colours change; may be traced.

    Returns:
      The shape and dtype of ``images``, within ``[low, high]``.

    Source: Du et al. 2021, section 3.3; sampling-approaches thesis, Alg. 7.
    """
    check_batch(images)
    if images.shape[-1] not in (1, 3):
        raise ValueError(
            f"images must have 1 (grey) or 3 (red, green, blue) channels, got shape {images.shape}."
        )
    check_positive("min_area", min_area)
    check_fraction("min_area", min_area)
    check_fraction("jitter_prob", jitter_prob)
    crop_key, flip_key, jitter_key, chosen_key, grey_key = jax.random.split(key, 5)
    images = _crop_and_enlarge(crop_key, images, min_area)
    if is_flipped:
        images = random_flip(flip_key, images)
    levels = (images.astype(jnp.float32) - low) / (high - low)
    jittered = low + (high - low) * _jitter_colours(jitter_key, levels)
    is_chosen = jax.random.bernoulli(chosen_key, jitter_prob, (len(images), 1, 1, 1))
    images = jnp.where(is_chosen, jittered, images).astype(images.dtype)
    is_grey = jax.random.bernoulli(grey_key, GREY_PROB, (len(images), 1, 1, 1))
    return jnp.where(is_grey, _luminance(images), images)


def _crop_and_enlarge(key: Key, images: jax.Array, min_area: Any) -> jax.Array:
    """Cuts a random rectangle out of each image and enlarges it to full size, bilinearly.

    Its area is uniform over ``[min_area, 1]`` of the image's. The logarithm of its aspect (width
    over height, relative to the image's) is uniform between 3/4 and 4/3, or nearer to 1 if the
    rectangle would not fit. Its place is uniform.
    """
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


def _jitter_colours(
    key: Key,
    levels: jax.Array,
    *,
    brightness: float = 0.8,
    contrast: float = 0.8,
    saturation: float = 0.8,
    hue: float = 0.4,
) -> jax.Array:
    """Changes brightness, contrast, saturation and hue of levels in [0, 1], in this order.

    Brightness multiplies levels, contrast their distance from the image's mean luminance,
    saturation their distance from the pixel's luminance; each factor is uniform within 1 plus or
    minus the setting. Hue turns colours about the grey axis by an angle uniform within plus or
    minus ``hue`` of a full turn. Levels are clipped after each change. Images of one channel change
    in brightness and contrast only.
    """
    shape = (len(levels), 1, 1, 1)
    hue_key, *keys = jax.random.split(key, 4)
    factors = [
        1.0 + most * jax.random.uniform(key, shape, minval=-1.0)
        for key, most in zip(keys, (brightness, contrast, saturation), strict=True)
    ]
    levels = jnp.clip(levels * factors[0], 0.0, 1.0)
    mean = jnp.mean(_luminance(levels), axis=(1, 2, 3), keepdims=True)
    levels = jnp.clip(mean + (levels - mean) * factors[1], 0.0, 1.0)
    if levels.shape[-1] == 1:
        return levels
    grey = _luminance(levels)
    levels = jnp.clip(grey + (levels - grey) * factors[2], 0.0, 1.0)
    turns = hue * jax.random.uniform(hue_key, shape[:1], minval=-1.0)
    return jnp.clip(_turn_colours(levels, turns), 0.0, 1.0)


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
