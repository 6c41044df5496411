"""Calls a user's function for a split."""

import os

import numpy as np

from ebmjax._user_function import user_function
from ebmjax.data._source import MissingSplitError, Source, of_array, with_channels


def function_source(name: str, split: str, path: str | os.PathLike[str] | None = None) -> Source:
    """Calls ``function(split)``, or with ``path=`` if a path is given.

    It returns (images, labels), ``ImageData``, or None if there is no such split. Labels may be
    None.

    Raises:
      MissingSplitError: if the function returns None.
      ValueError: if it cannot be imported, raises, or returns something else.
    """
    function = user_function(name)
    try:
        found = function(split, path=path) if path else function(split)
    except Exception as error:  # whatever the user's own code raises
        raise ValueError(f"{name}({split!r}) raised {type(error).__name__}: {error}.") from error
    if found is None:
        raise MissingSplitError(f"{name}({split!r}) returned None: there is no such split.")
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ValueError(
            f"{name}({split!r}) must return (images, labels) or None, got a {type(found).__name__}."
        )
    images = np.asarray(found[0])
    images = images.reshape(with_channels(images.shape, f"images of {name}({split!r})"))
    labels = None if found[1] is None else np.asarray(found[1])
    if labels is not None and labels.shape != (len(images),):
        raise ValueError(
            f"labels of {name}({split!r}) must have shape ({len(images)},), got {labels.shape}."
        )
    return of_array(images, labels)
