"""The form of image data in memory, its check, and conversions to and from [-1, 1]."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_labels, check_not_negative
from ebmjax._stored import StoredRows
from ebmjax.types import Key


class ImageData(NamedTuple):
    """A decoded split, on the host; a trainer moves it to the device once.

    Attributes:
      images: uint8 (N, height, width, channels), levels 0 to 255. Images that stay on the disk
        (``load_images``) are read when rows are taken: ``images[:8]`` is an array.
      labels: int32 (N,).
    """

    images: np.ndarray
    labels: np.ndarray


def check_image_data(data: ImageData, num_classes: int | None = None) -> ImageData:
    """Returns the split in the trainers' form, as NumPy arrays; raises if that is impossible.

    Inside ``jit`` a label out of range would pick another class's logit in silence.

    Args:
      data: ``images`` uint8 (N, height, width, channels) and integer ``labels`` (N,), N >= 1;
        arrays, or lists of arrays or numbers. Images that stay on the disk stay there.
      num_classes: labels must lie in 0, ..., num_classes - 1; None if they are not classes.

    Returns:
      ``ImageData`` of uint8 images and int32 labels.
    """
    if num_classes is not None:
        check_at_least("num_classes", num_classes, 1)
    arrays: list[Any] = []
    for name, values in zip(ImageData._fields, data, strict=True):
        try:
            arrays.append(values if isinstance(values, StoredRows) else np.asarray(values))
        except ValueError:
            message = f"{name} must all have one shape, got a list whose entries differ."
            raise ValueError(message) from None
    images, labels = arrays
    if images.dtype != np.uint8:
        raise TypeError(
            f"images must be uint8 levels 0 to 255, got dtype {images.dtype}. load_images reads "
            "other ranges; ebmjax.data.from_signed_unit turns floats of [-1, 1] into levels."
        )
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(
            "images must have shape (N, height, width, channels) with no axis empty, got "
            f"{images.shape}. Grey images need a last axis of size 1."
        )
    limit = np.iinfo(np.int32).max if num_classes is None else num_classes
    check_labels("labels", labels, (len(images),), limit)
    return ImageData(images, labels.astype(np.int32))


def _check_uint8(images: jax.Array) -> None:
    if jnp.result_type(images) != jnp.uint8:
        raise TypeError(
            f"images must be uint8 levels 0 to 255, got dtype {jnp.result_type(images)}. Were they "
            "normalised already? Keep data as uint8 and normalise once, inside the train step."
        )


@jax.jit  # one program, not one for each operation
def to_signed_unit(images: jax.Array) -> jax.Array:
    """Converts levels 0..255 to float32 in [-1, 1]: ``x / 127.5 - 1``."""
    _check_uint8(images)
    # One division of exact integers keeps both ends and the symmetry about 127.5 exact.
    return (2.0 * images.astype(jnp.float32) - 255.0) / 255.0


@jax.jit
def from_signed_unit(x: jax.Array) -> jax.Array:
    """Returns the level 0..255 (uint8) whose 256th of [-1, 1] holds ``x``; clips values outside.

    It is the inverse of ``to_signed_unit`` and of ``dequantise``.

    Example:
      >>> from_signed_unit(jnp.array([-3.0, 0.0, 1.0])).tolist()
      [0, 128, 255]
    """
    return jnp.clip(128 * x + 128, 0, 255).astype(jnp.uint8)


def dequantise(key: Key, images: jax.Array) -> jax.Array:
    """Returns ``2 (x + u) / 256 - 1`` with u ~ U[0, 1), float32 in [-1, 1].

    Uniform dequantisation makes each level an interval of width 2/256, so that a density over the
    reals does not collapse onto levels. Values lie in [-1, 1); rounding to float32 can reach 1.

    Args:
      key: consumed by the noise.
      images: uint8, any shape.

    Source: Theis, van den Oord & Bethge 2016, section 3.1.
    """
    _check_uint8(images)
    noise = jax.random.uniform(key, jnp.shape(images))
    return (images.astype(jnp.float32) + noise) / 128.0 - 1.0


def add_gaussian_noise(key: Key, images: jax.Array, *, scale: Any) -> jax.Array:
    """Returns ``images + scale * noise`` with standard normal noise; clips nothing.

    The noise smooths the data's law, which otherwise lies on 256 levels. Images may leave [-1, 1],
    because clipping would pile up the tails at the ends.

    Args:
      key: consumed by the noise.
      images: floating point (N, height, width, channels).
      scale: standard deviation in units of the images, at least 0, may be traced. For images in
        [-1, 1], JEM uses 0.03 and SADA-JEM 0 (no change).
    """
    check_batch(images)
    check_not_negative("scale", scale)
    noise = jax.random.normal(key, images.shape, images.dtype)
    return images + jnp.asarray(scale, images.dtype) * noise


def check_batch(images: jax.Array) -> None:
    """Raises unless ``images`` are floating point (N, height, width, channels)."""
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
