"""Checks a user's images and labels once, on the host."""

import warnings
from typing import Any

import numpy as np

from ebmjax._checks import check_at_least, check_labels
from ebmjax._stored import AT_ONCE, is_stored
from ebmjax.data._images import ImageData


def check_image_data(data: ImageData, num_classes: int | None = None) -> ImageData:
    """Returns the split in the trainers' form, as NumPy arrays; raises if that is impossible.

    Inside ``jit`` values are not checked: a label out of range would pick another class's logit,
    and a NaN pixel would spoil the parameters.

    Warns of images that are most likely wrong: with channels before height and width, or with
    levels 0 and 1 only.

    Args:
      data: ``images`` uint8 (N, height, width, channels) and integer ``labels`` (N,), N >= 1;
        arrays, or lists of arrays or numbers. Images that stay on the disk stay there.
      num_classes: labels must lie in 0, ..., num_classes - 1; None if they are not classes.

    Returns:
      ``ImageData`` of uint8 images and int32 labels.

    Example:
      >>> data = check_image_data(ImageData(np.zeros((2, 8, 8, 1), np.uint8), [0, 9]), 10)
      >>> data.labels
      array([0, 9], dtype=int32)
    """
    if num_classes is not None:
        check_at_least("num_classes", num_classes, 1)
    images, labels = ImageData(*data)
    images, labels = _as_array("images", images), _as_array("labels", labels)
    if images.dtype != np.uint8:
        raise TypeError(
            f"images must be uint8 levels 0 to 255, got dtype {images.dtype}. {_remedy(images)}"
        )
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(
            "images must have shape (N, height, width, channels) with no axis empty, got "
            f"{images.shape}. Grey images need a last axis of size 1."
        )
    limit = np.iinfo(np.int32).max if num_classes is None else num_classes
    check_labels("labels", labels, (len(images),), limit)
    _warn_of_likely_mistakes(images)
    return ImageData(images, labels.astype(np.int32))


def _as_array(name: str, values: Any) -> Any:
    if is_stored(values):
        return values
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must all have one shape, got a list whose entries differ. "
            f"{'Give one integer an image' if name == 'labels' else 'Resize them to one size'}."
        ) from None


def _remedy(images: np.ndarray) -> str:
    """Returns the sentence that says how to turn images of this range into levels."""
    if images.dtype == bool:
        return "Multiply by 255: numpy.uint8(255) * numpy.asarray(images)."
    if not np.issubdtype(images.dtype, np.number) or np.iscomplexobj(images) or not images.size:
        return "Give an array of numbers, one level a pixel and channel."
    finite = images[np.isfinite(images)]
    num_broken = images.size - finite.size
    broken = f"{num_broken} pixels are NaN or infinite: repair or leave out these images. "
    if not finite.size:
        return broken.strip()
    low, high = finite.min(), finite.max()
    there = "" if num_broken == 0 else broken
    there += f"The values run from {low:g} to {high:g}: "
    is_whole = bool(np.all(finite == np.round(finite)))
    if low >= 0 and 1 < high <= 255:
        array = "numpy.asarray(images)"
        return there + (f"{array}.astype(numpy.uint8)." if is_whole else _say_rounding(array))
    if low >= 0 and high <= 1:
        return there + _say_rounding("255 * numpy.asarray(images)")
    if low >= -1 and high <= 1:
        return there + (
            "ebmjax.data.from_signed_unit(numpy.asarray(images)) goes back from [-1, 1] to levels."
        )
    return there + "rescale them so that black is 0 and white is 255, then round to numpy.uint8."


def _say_rounding(values: str) -> str:
    return f"numpy.round({values}).astype(numpy.uint8)."


def _warn_of_likely_mistakes(images: Any) -> None:
    _, height, _, channels = images.shape
    if height in (1, 3) and channels not in (1, 3, 4):
        warnings.warn(
            f"images of shape {images.shape} look like (N, channels, height, width); the last axis "
            "must be that of channels: numpy.transpose(images, (0, 2, 3, 1)).",
            stacklevel=3,
        )
    if (images[:AT_ONCE] if is_stored(images) else images).max() == 1:
        warnings.warn(
            "images have no other levels than 0 and 1 of 255, all but black. If 1 stands for "
            "white, multiply by 255: numpy.uint8(255) * numpy.asarray(images).",
            stacklevel=3,
        )
