"""Calls a user's function for a split."""

import inspect
import os
from typing import Any

import numpy as np

from ebmjax._user_function import user_function
from ebmjax.data._source import Source, check_shape
from ebmjax.data._splits import MissingSplitError


def function_source(name: str, split: str, path: str | os.PathLike[str] | None = None) -> Source:
    """Calls ``function(split)``, or with ``path=`` if a path is given.

    It returns (images, labels), ``ImageData``, or None if there is no such split. Images are an
    array, or a list of Pillow's images. Labels may be None.

    Raises:
      MissingSplitError: if the function returns None.
      ValueError: if it cannot be imported, raises, or returns something else.
    """
    function = user_function(name)
    what = f"{name}({split!r})"
    arguments = inspect.signature(function)
    try:
        arguments.bind(split, **({"path": path} if path else {}))
    except TypeError as error:
        raise ValueError(
            f"{name} must take (split{', *, path' * bool(path)}) and return (images, labels), or "
            f"None where there is no such split; its arguments are {arguments}."
        ) from error
    try:
        found = function(split, path=path) if path else function(split)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        raise ValueError(f"{what} raised {type(error).__name__}: {error}.") from error
    if found is None:
        raise MissingSplitError(f"{what} returned None: there is no such split.")
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ValueError(
            f"{what} must return (images, labels) or None, got a {type(found).__name__}."
        )
    source = _of_images(found[0], what)
    if found[1] is None:
        return source
    labels = _as_array(found[1], f"labels of {what}")
    if labels.shape != (source.num_images,):
        raise ValueError(
            f"labels of {what} must have shape ({source.num_images},), got {labels.shape}."
        )
    return source._replace(labels=labels)


def of_array(images: np.ndarray, labels: np.ndarray | None, what: str) -> Source:
    """Returns the source of an array (N, height, width, channels) in memory."""
    shape = check_shape(images.shape, images.dtype, f"images of {what}")
    images = images.reshape(shape)
    return Source(
        num_images=len(images),
        name_of=lambda index: f"image {index} of {what}",
        labels=labels,
        rows=lambda places: images[places],
        shape=shape[1:],
        dtype=images.dtype,
    )


def _of_images(images: Any, what: str) -> Source:
    is_list = isinstance(images, list | tuple)
    if not (is_list and any(hasattr(one, "getexif") for one in images)):
        return of_array(_as_array(images, f"images of {what}"), None, what)
    return Source(
        num_images=len(images),
        name_of=lambda index: f"image {index} of {what}",
        pictures=lambda places: (images[index] for index in places),
    )


def _as_array(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{what} must be one array, and their shapes differ.") from error
