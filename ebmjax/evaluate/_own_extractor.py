"""A function of your own as the extractor of features, and features kept in a file."""

import contextlib
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax import networks, training
from ebmjax.evaluate import _extractors
from ebmjax.evaluate._extractors import Extractor


def own_extractor(function: Callable[[np.ndarray], Any]) -> Extractor:
    """Returns an extractor of your function, written in JAX, PyTorch or anything else.

    Args:
      function: uint8 images (N, H, W, C) to features (N, d), or to a pair of features and class
        probabilities (N, classes). It is called with batches, and not traced.

    Returns:
      An ``Extractor`` with the function's name. A call raises ValueError unless the features are
      finite and have shape (N, d). Its digest is that of the file of the function, so features of
      the reference images are kept for as long as that file stays the same. Weights that the
      function reads from elsewhere are not part of it: name another function for others.

    Example:
      >>> def pixels(images):
      ...     return images.reshape(len(images), -1) / 255
      >>> found = own_extractor(pixels)
      >>> found.name, found.outputs_fn(np.zeros((3, 2, 2, 1), np.uint8))[0].shape
      ('pixels', (3, 4))
    """

    def outputs(images: Any) -> tuple[Any, Any]:
        found = function(np.asarray(images))
        features, probabilities = found if isinstance(found, tuple) else (found, None)
        features = np.asarray(features)
        if features.ndim != 2 or len(features) != len(images) or not np.isfinite(features).all():
            raise ValueError(
                f"an extractor must return finite features of shape ({len(images)}, d), a row an "
                f"image, got shape {features.shape}. Take features.reshape(len(images), -1)."
            )
        return features, None if probabilities is None else np.asarray(probabilities)

    name, digest = getattr(function, "__name__", type(function).__name__), ""
    with contextlib.suppress(TypeError, OSError):  # without a file, nothing is kept
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes()
        digest = hashlib.sha256(source + name.encode()).hexdigest()
    return Extractor(name, outputs, {"digest": digest}, is_host=True, digest=digest)


def keep_features(
    extractor: Extractor, images: Any, extract: Callable[[], np.ndarray]
) -> np.ndarray:
    """Returns ``extract()``, features (N, d) of images; kept for an extractor with a digest.

    ``~/.cache/ebmjax/extractors`` keeps them, under digests of the images and of the extractor. A
    file that cannot be read or written does not matter.
    """
    if not extractor.digest:
        return extract()
    digest = hashlib.sha256(f"{training.tree_digest(images)} {extractor.digest}".encode())
    path = _extractors.CACHE / f"features_{digest.hexdigest()}.npz"
    with contextlib.suppress(OSError, ValueError, KeyError):
        return networks.read_tensors(path)["features"]
    features = extract()
    with contextlib.suppress(OSError):
        _extractors.keep(path, {"features": features})
    return features
