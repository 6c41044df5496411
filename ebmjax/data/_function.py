"""Calls a user's function for a split."""

import inspect
import os
from typing import Any

import numpy as np

from ebmjax._user_function import user_function
from ebmjax.data._source import MissingSplitError, Source, of_array


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
    options = {"path": path} if path else {}
    try:
        inspect.signature(function).bind(split, **options)
    except TypeError as error:
        raise ValueError(
            f"{name} must take (split{', *, path' * bool(path)}) and return (images, labels), or "
            f"None where there is no such split; its arguments are {inspect.signature(function)}."
        ) from error
    try:
        found = function(split, **options)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        raise ValueError(f"{what} raised {type(error).__name__}: {error}.") from error
    if found is None:
        raise MissingSplitError(f"{what} returned None: there is no such split.")
    if not isinstance(found, tuple | list) or len(found) != 2:
        kind = type(found).__name__
        raise ValueError(f"{what} must return (images, labels) or None, got a {kind}.")
    images, labels = found
    if isinstance(images, list | tuple) and any(hasattr(one, "getexif") for one in images):
        source = Source(
            num_images=len(images),
            name_of=lambda index: f"image {index} of {what}",
            pictures=lambda places: (images[index] for index in places),
        )
    else:
        source = of_array(_as_array(images, f"images of {what}"), None, what)
    if labels is None:
        return source
    labels, shape = _as_array(labels, f"labels of {what}"), (source.num_images,)
    if labels.shape != shape:
        raise ValueError(f"labels of {what} must have shape {shape}, got {labels.shape}.")
    return source._replace(labels=labels)


def _as_array(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{what} must be one array, and their shapes differ.") from error
