"""Reads a data set of Hugging Face's ``datasets`` that was saved on disk."""

import os
from typing import Any

import numpy as np

from ebmjax.data._fit import fitted
from ebmjax.data._source import TRAIN, MissingSplitError, Source, existing


def huggingface_source(
    path: str | os.PathLike[str] | None, split: str, image_size: int | None = None
) -> Source:
    """Finds a split of a data set that ``save_to_disk`` wrote.

    The images are its first column of images. The labels are its first column of class labels, or
    "label"; without one there are no classes. A data set without splits is the split "train".

    Raises:
      ImportError: if ``datasets`` is not installed.
      FileNotFoundError: if there is no such folder.
      MissingSplitError: if it has no such split.
      ValueError: if it cannot be read, or has no column of images.
    """
    place = existing(path, "a folder that datasets.save_to_disk wrote")
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f"a Hugging Face data set needs the package datasets, which cannot be imported "
            f'({error}): pip install "ebmjax[huggingface]"'
        ) from error
    try:
        found: Any = datasets.load_from_disk(str(place))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{place} cannot be read as a data set that save_to_disk wrote: {error}."
        ) from error
    parts = found if isinstance(found, dict) else {TRAIN: found}
    if split not in parts:
        raise MissingSplitError(f"{place} has the splits {sorted(parts)}, and no {split!r}.")
    rows, features = parts[split], parts[split].features
    column = _first(features, datasets.Image)
    if column is None or not len(rows):
        raise ValueError(f"{place} must have a column of images, it has {dict(features)}.")
    label = _first(features, datasets.ClassLabel) or ("label" if "label" in features else None)
    labels = None if label is None else np.asarray(rows[label])
    names = tuple(getattr(features.get(label), "names", None) or ())
    first = _pixels(rows[0][column], image_size)

    def read(places: np.ndarray) -> tuple[np.ndarray, set[tuple[int, ...]]]:
        found = [row[column] for row in rows.select(places)]
        images = [_pixels(image, image_size) for image in found]
        shapes = {image.shape for image in images}
        if len(shapes) > 1:
            raise ValueError(
                f"images of {place} must have one shape, got {sorted(shapes)[:3]}. Set image_size, "
                "and their central squares are resized to it."
            )
        return np.stack(images), {(image.height, image.width) for image in found}

    return Source(len(rows), first.shape, labels, read, names, is_on_disk=True)


def _first(features: Any, kind: type) -> str | None:
    return next((name for name, one in features.items() if isinstance(one, kind)), None)


def _pixels(image: Any, image_size: int | None) -> np.ndarray:
    pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return fitted(pixels.reshape(*pixels.shape[:2], -1), image_size)
