"""Checks a user's images and labels once, on the host."""

from typing import Any

import numpy as np

from ebmjax._checks import check_at_least, check_labels
from ebmjax._stored import is_stored
from ebmjax.data._images import ImageData


def check_image_data(data: ImageData, num_classes: int | None = None) -> ImageData:
    """Returns the split in the trainers' form, as NumPy arrays; raises if that is impossible.

    Inside ``jit`` values are not checked: a label out of range would pick another class's logit,
    and a NaN pixel would spoil the parameters.

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
