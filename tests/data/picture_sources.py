"""The same encoded pictures in every source that decodes them, for tests."""

import io
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from ebmjax.data import _tfds, load_images

ENCODED = ("folder", "huggingface", "tfds")
"""Sources that hold encoded pictures."""


def encoded(image, kind="PNG", **options):
    """The bytes of an image in a format."""
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(
        file, kind, **options
    )
    return file.getvalue()


def png(width, height, depth, colour, rows, last=()):
    """A PNG of any header, whose pixels are the bytes ``rows``; ``last`` stands behind them."""

    def chunk(name, content):
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows))]
    parts += [*(chunk(*one) for one in last), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


class Records:
    """Stands in for the examples of a prepared data set."""

    def __init__(self, examples):
        self.examples = self.data_source = examples

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, index):
        return self.examples[index]

    def __getitems__(self, indices):
        return [self.examples[index] for index in indices]


def fake_tfds(monkeypatch, examples, dtype=np.uint8, label=None):
    """Makes ``examples`` the only data set of tensorflow-datasets."""
    features = {"image": SimpleNamespace(np_dtype=np.dtype(dtype))}
    features |= {"label": SimpleNamespace(num_classes=label, shape=())} if label else {}
    builder = SimpleNamespace(
        info=SimpleNamespace(features=features, splits={}),
        data_path=".",
        as_data_source=lambda split: Records(examples),
    )
    monkeypatch.setattr(_tfds, "open_builder", lambda *_: builder)


def write_rows(place, rows, features=None):
    """Saves rows of columns as Hugging Face's ``datasets`` do."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    kinds = {"image": datasets.Image()} | (features(datasets) if features else {})
    found = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    found.save_to_disk(str(place))
    return place


def load(source, place, pictures, monkeypatch, **options):
    """The images of bytes, read from ``source``."""
    if source == "tfds":
        fake_tfds(monkeypatch, [{"image": one} for one in pictures])
        return load_images("some_set", "train", **options)
    if source == "huggingface":
        rows = [{"bytes": one, "path": None} for one in pictures]
        return load_images(
            source, "train", path=write_rows(place / "s", {"image": rows}), **options
        )
    (place / "s").mkdir(parents=True)
    for index, one in enumerate(pictures):
        Path(place / "s" / f"{index}.png").write_bytes(one)
    return load_images(source, "train", path=place / "s", **options)
