"""Images that a trained model should find unlikely, and how well its scores detect them."""

import contextlib
from typing import Any

import jax
import numpy as np

from ebmjax import data, metrics
from ebmjax.recipes.core.fields import Config, ConfigError

SCORES = ("log_density", "max_probability", "negative_score_norm")

# The same images for every run, so that seeds differ only by their models.
SEED = 0
# Photographs show structure in 32 pixels, so smaller patches come from smaller photographs.
PATCH_SIDE = 32

UNAVAILABLE = (data.DataUnavailableError, FileNotFoundError)


def ood_sets(config: Config, test: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Returns uint8 images (num, H, W, C) by name, as many as are tested, and skipped sets.

    Raises:
      ConfigError: if ``config.eval.ood_tfds`` names something unknown.
    """
    num, size, channels = len(test), test.shape[1], test.shape[-1]
    shape: dict[str, int] = {"size": size, "channels": channels, "seed": SEED}
    sets = {
        "natural_patches": data.natural_patches(num, downscale=max(1, PATCH_SIDE // size), **shape),
        "interp": data.interpolated_images(test, seed=SEED),
        "noise": data.uniform_noise_images(num, **shape),
        "constant": data.constant_images(num, **shape),
    }
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


def check_sets(config: Config, test: np.ndarray) -> None:
    """Raises as ``ood_sets``, after reading one image of each set."""
    if len(test) < 2:
        raise ConfigError(
            "config.eval.num_ood compares test images with mixtures of two of them, and there is "
            f"{len(test)}: give the run at least 2 (config.data.max_test, num_validation), or set "
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


@jax.jit
def detection(in_scores: jax.Array, out_scores: jax.Array) -> dict[str, jax.Array]:
    """Returns AUROC, AUPR and FPR@95, in-distribution being positive; NaN if a score is NaN."""
    return {
        "auroc": metrics.auroc(in_scores, out_scores),
        "aupr": metrics.average_precision(in_scores, out_scores),
        "fpr95": metrics.fpr_at_tpr(in_scores, out_scores),
    }


def detections(
    tested: dict[str, np.ndarray], others: dict[str, dict[str, np.ndarray]]
) -> dict[str, Any]:
    """Returns every score's detection of every set, and the mean AUROC over the sets.

    Args:
      tested: score name to (num,), for the test images.
      others: set name to the same.
    """
    sets = {
        name: {
            score: {k: float(v) for k, v in detection(tested[score], theirs[score]).items()}
            for score in SCORES
        }
        for name, theirs in others.items()
    }
    mean = {
        score: float(np.mean([found[score]["auroc"] for found in sets.values()]))
        for score in SCORES
    }
    return {"sets": sets, "mean_auroc": mean}
