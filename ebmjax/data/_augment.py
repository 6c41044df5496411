"""Augmentation of images inside the train step."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_not_negative
from ebmjax.types import Key


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

    Example:
      >>> reflect_pad_crop(jax.random.key(0), jnp.zeros((2, 8, 8, 1)), padding=1).shape
      (2, 8, 8, 1)
    """
    _check_batch(images)
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
    _check_batch(images)
    is_flipped = jax.random.bernoulli(key, shape=(images.shape[0], 1, 1, 1))
    return jnp.where(is_flipped, images[:, :, ::-1, :], images)


def add_gaussian_noise(key: Key, images: jax.Array, *, scale: Any) -> jax.Array:
    """Returns ``images + scale * noise`` with standard normal noise; clips nothing.

    The noise smooths the data's law, which otherwise lies on 256 levels. Images may leave [-1, 1],
    because clipping would pile up the tails at the ends.

    Args:
      key, images: as for ``reflect_pad_crop``.
      scale: standard deviation in units of the images, at least 0, may be traced. For images in
        [-1, 1], JEM uses 0.03 and SADA-JEM 0 (no change).
    """
    _check_batch(images)
    check_not_negative("scale", scale)
    noise = jax.random.normal(key, images.shape, images.dtype)
    return images + jnp.asarray(scale, images.dtype) * noise


def _check_batch(images: jax.Array) -> None:
    if not jnp.issubdtype(jnp.result_type(images), jnp.floating):
        raise TypeError(
            f"images must be floating point, got dtype {jnp.result_type(images)}. Normalise levels "
            "with ebmjax.data.to_signed_unit first."
        )
    if jnp.ndim(images) != 4:
        raise ValueError(
            f"images must have shape (N, height, width, channels), got {jnp.shape(images)}. A "
            "single image needs a leading axis: images[None]."
        )
