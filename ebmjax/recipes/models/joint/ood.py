"""Images that a trained model should find unlikely, some of them of tensorflow-datasets."""

import contextlib
from collections.abc import Iterable

import numpy as np

from ebmjax import data, evaluate
from ebmjax.recipes.config.errors import Config, ConfigError

UNAVAILABLE = (data.DataUnavailableError, FileNotFoundError)


def ood_sets(config: Config, test: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Returns uint8 images (num, H, W, C) by name, as many as are tested, and skipped sets.

    Raises:
      ConfigError: if ``config.eval.ood_tfds`` names something unknown.
    """
    num, sets = len(test), evaluate.ood_sets(test)
    skipped = {}
    for name in config.eval.ood_tfds:
        try:
            found = _tfds_images(config, name, test)
        except UNAVAILABLE as error:
            skipped[name] = str(error)
            continue
        if len(found) == num:
            sets[name] = found
        else:
            skipped[name] = (
                f"{name} has {len(found)} test images where {num} are tested. Take "
                f"--config.eval.num_ood={len(found)} to compare with as many."
            )
    return sets, skipped


def groups(config: Config, sets: Iterable[str]) -> dict[str, list[str]]:
    """Returns the names of sets "near" the run's images and "far" from them, which are easier.

    As in OpenOOD v1.5, CIFAR-10 and CIFAR-100 are near each other.
    """
    found: dict[str, list[str]] = {"near": [], "far": []}
    for name in sets:
        is_near = name == "interp" or {name, config.data.name} == {"cifar10", "cifar100"}
        found["near" if is_near else "far"].append(name)
    return found


def check_sets(config: Config, test: np.ndarray) -> None:
    """Raises as ``ood_sets``, after reading one image of each set."""
    if len(test) < 2:
        raise ConfigError(
            "config.eval.num_ood compares test images with mixtures of two of them, and there is "
            f"{len(test)}: give the run at least 2 (config.data.max_test, holdout), or set "
            "--config.eval.num_ood=0."
        )
    for name in config.eval.ood_tfds:
        with contextlib.suppress(*UNAVAILABLE):
            _tfds_images(config, name, test[:1])


def _tfds_images(config: Config, name: str, test: np.ndarray) -> np.ndarray:
    try:
        images = data.load_tfds(
            name,
            "test",
            data_dir=_tfds_folder(config),
            image_size=test.shape[1],
            fit=config.data.fit,
            max_examples=len(test),
            prepare=False,
        ).images
    except ValueError as error:
        raise ConfigError(f"config.eval.ood_tfds: {error}") from error
    if images.shape[1:] != test.shape[1:]:
        raise ConfigError(
            f"config.eval.ood_tfds must name images like those of config.data.name="
            f"{config.data.name!r}, {test.shape[1:]}; {name} has {images.shape[1:]}."
        )
    return images


def _tfds_folder(config: Config) -> str | None:
    """Returns the folder of prepared data sets, if the run's own data are among them."""
    return config.data.path or None if data.is_tfds(config.data.name) else None
