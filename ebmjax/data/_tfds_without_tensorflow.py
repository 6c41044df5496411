"""Lets tensorflow-datasets prepare image data without TensorFlow.

This module alone uses private names of tensorflow-datasets. It was tried on version 4.9.10. There,

- four modules open plain files through ``tf.io.gfile.GFile``;
- arrays are encoded to PNG inside a TensorFlow graph;
- a dead network is retried for 204 s (measured), without a time limit for a silent one.
"""

import contextlib
import importlib
import io
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

_USERS_OF_TENSORFLOW = (
    "tensorflow_datasets.core.download.extractor",
    "tensorflow_datasets.datasets.svhn_cropped.svhn_cropped_dataset_builder",
    "tensorflow_datasets.image_classification.cifar",
    "tensorflow_datasets.image_classification.mnist",
)
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0


class _PlainFile(io.FileIO):
    """Binary file that still reads after its ``with`` block, as TensorFlow's GFile does.

    celeb_a's builder collects handles into the archive and reads them after closing it.
    """

    def __exit__(self, *error: Any) -> None:
        if self.writable():
            self.close()

    def __del__(self) -> None:
        self.close()


_PLAIN_FILES = SimpleNamespace(
    io=SimpleNamespace(gfile=SimpleNamespace(GFile=_PlainFile)),
    compat=SimpleNamespace(as_text=str),
)


def _encode_image(encoder: Any, image: Any) -> bytes:
    """Stands in for ``_ImageEncoder._encode_image``: uint8 (H, W, C) to the encoder's format."""
    from PIL import Image

    pixels = image[..., 0] if image.shape[-1] == 1 else image
    return encoder._encode_pil_image(Image.fromarray(pixels))


def _until(endings: list[Exception], blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if endings:
            raise endings[0]
        yield block


def _bound_downloads(open_url: Callable[..., Any], endings: list[Exception]) -> Callable[..., Any]:
    """Calls ``open_url`` with time limits; ends all downloads at the first failure or at the end.

    Without limits, a failed download is reported only after those before it in the alphabet, and
    the interpreter waits at exit for threads that fetch gigabytes.
    """

    @contextlib.contextmanager
    def open_bounded(url: str, **kwargs: Any) -> Iterator[tuple[Any, Iterable[bytes]]]:
        limits = (CONNECT_SECONDS, SILENCE_SECONDS)
        try:
            with open_url(url, timeout=limits, **kwargs) as (response, blocks):
                yield response, _until(endings, blocks)
        except Exception as error:
            endings.append(error)
            raise

    return open_bounded


def _substitutions(endings: list[Exception]) -> list[tuple[Any, str, Any]]:
    """Returns names to replace while preparing: (owner, private name, substitute)."""
    from tensorflow_datasets.core.download import downloader
    from tensorflow_datasets.core.features import image_feature

    return [
        *((importlib.import_module(name), "tf", _PLAIN_FILES) for name in _USERS_OF_TENSORFLOW),
        (image_feature._ImageEncoder, "_encode_image", _encode_image),
        (downloader, "MAX_RETRIES", 0),
        (downloader, "_open_url", _bound_downloads(downloader._open_url, endings)),
    ]


@contextlib.contextmanager
def tfds_without_tensorflow() -> Iterator[None]:
    """Makes tensorflow-datasets prepare images without TensorFlow and fail fast offline.

    It covers cifar10, cifar100, svhn_cropped, mnist, fashion_mnist and celeb_a. On exit every name
    is restored and running downloads end.

    Raises:
      NotImplementedError: if this version of tensorflow-datasets has moved one of the names.
    """
    endings: list[Exception] = []
    with contextlib.ExitStack() as undo:
        undo.callback(endings.append, InterruptedError("the preparation has ended"))
        try:
            for owner, name, substitute in _substitutions(endings):
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, substitute)
        except (ImportError, AttributeError) as error:
            import tensorflow_datasets as tfds

            raise NotImplementedError(
                f"tensorflow-datasets {tfds.__version__} has moved a private name that preparing "
                f"without TensorFlow relies on ({error}); 4.9.10 is known to work"
            ) from error
        yield
