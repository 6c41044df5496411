"""Lets tensorflow-datasets prepare image data where TensorFlow is not installed.

Everything in this module touches private names of tensorflow-datasets; nothing else in the
library does. Version 4.9.10 is the one it was tried on. There,

- four modules open plain files through ``tf.io.gfile.GFile``;
- arrays are encoded to PNG inside a TensorFlow graph;
- a dead network is retried for 204 s (measured), without a time limit for a silent one.
"""

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

_USERS_OF_TENSORFLOW = (
    "tensorflow_datasets.core.download.extractor",
    "tensorflow_datasets.datasets.svhn_cropped.svhn_cropped_dataset_builder",
    "tensorflow_datasets.image_classification.cifar",
    "tensorflow_datasets.image_classification.mnist",
)
_PLAIN_FILES = SimpleNamespace(
    io=SimpleNamespace(gfile=SimpleNamespace(GFile=open)),
    compat=SimpleNamespace(as_text=str),
)
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0


def _encode_image(encoder: Any, image: Any) -> bytes:
    """Stands in for ``_ImageEncoder._encode_image``: uint8 (H, W, C) to the encoder's format."""
    from PIL import Image

    pixels = image[..., 0] if image.shape[-1] == 1 else image
    return encoder._encode_pil_image(Image.fromarray(pixels))


def _until(is_over: threading.Event, blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if is_over.is_set():
            raise InterruptedError("The preparation this download belonged to has ended.")
        yield block


def _bounded(open_url: Callable[..., Any], is_over: threading.Event) -> Callable[..., Any]:
    """``open_url`` with time limits; its download ends when the preparation does.

    Downloads run in threads that the interpreter waits for at exit, gigabytes long.
    """

    @contextlib.contextmanager
    def open_bounded(url: str, **kwargs: Any) -> Iterator[tuple[Any, Iterable[bytes]]]:
        limits = (CONNECT_SECONDS, SILENCE_SECONDS)
        with open_url(url, timeout=limits, **kwargs) as (response, blocks):
            yield response, _until(is_over, blocks)

    return open_bounded


def _substitutions(is_over: threading.Event) -> list[tuple[Any, str, Any]]:
    """What is replaced while preparing: (owner, private name, substitute)."""
    from tensorflow_datasets.core.download import downloader
    from tensorflow_datasets.core.features import image_feature

    return [
        *((importlib.import_module(name), "tf", _PLAIN_FILES) for name in _USERS_OF_TENSORFLOW),
        (image_feature._ImageEncoder, "_encode_image", _encode_image),
        (downloader, "MAX_RETRIES", 0),
        (downloader, "_open_url", _bounded(downloader._open_url, is_over)),
    ]


@contextlib.contextmanager
def tfds_without_tensorflow() -> Iterator[None]:
    """While active, tensorflow-datasets prepares images without TensorFlow and fails fast offline.

    Covers cifar10, cifar100, svhn_cropped, mnist, fashion_mnist and celeb_a. Whatever happens
    inside, every name is restored on the way out, and downloads still running are ended.

    Raises:
      NotImplementedError: if this version of tensorflow-datasets has moved one of the names.
    """
    is_over = threading.Event()
    with contextlib.ExitStack() as undo:
        undo.callback(is_over.set)
        try:
            for owner, name, substitute in _substitutions(is_over):
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, substitute)
        except (ImportError, AttributeError) as error:
            import tensorflow_datasets as tfds

            raise NotImplementedError(
                f"tensorflow-datasets {tfds.__version__} has moved a private name that preparing "
                f"without TensorFlow relies on ({error}); 4.9.10 is known to work"
            ) from error
        yield
