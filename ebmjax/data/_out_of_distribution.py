"""Patches of photographs, which a model of other data should find unlikely."""

import numpy as np

from ebmjax._checks import check_at_least
from ebmjax._extras import needs_experiments
from ebmjax.data._indices import epoch_indices

LUMA = np.array([299, 587, 114])
"""Weights of red, green and blue in grey, in thousandths; ITU-R BT.601."""


def natural_patches(
    num: int, *, size: int, channels: int, seed: int, downscale: int = 1
) -> np.ndarray:
    """Returns square patches of scikit-learn's two photographs.

    A photograph (427x640 pixels: a temple, a flower) hardly changes over 8 pixels. ``downscale=f``
    first shrinks it, f x f pixels to their mean, so that small patches show structure. Places are
    distinct and equally likely; patches may overlap. Pillow decodes the JPEG files; its versions
    may differ by a level.

    Args:
      num: patches; at most the number of places in both (shrunk) photographs.
      size: side of a patch in pixels.
      channels: 3, or 1 for grey (luma of ITU-R BT.601).
      seed: at least 0; chooses the places.
      downscale: factor by which the photographs are shrunk, at least 1.

    Returns:
      uint8 (num, size, size, channels).
    """
    for name, value in {"num": num, "size": size, "downscale": downscale}.items():
        check_at_least(name, value, 1)
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 (grey) or 3 (colour), got {channels=}.")
    with needs_experiments("natural_patches", "scikit-learn and pillow"):
        from sklearn.datasets import load_sample_images

        found = load_sample_images().images
    photographs = np.stack([_shrunk(photo, channels, downscale) for photo in found])
    height, width = photographs.shape[1:3]
    total = len(photographs) * max(height - size + 1, 0) * max(width - size + 1, 0)
    if num > total:
        raise ValueError(
            f"num must be at most the {total} places of a {size}x{size} patch in the photographs "
            f"({height}x{width} at {downscale=}), got {num=}. Lower num, size or downscale."
        )
    windows = np.lib.stride_tricks.sliding_window_view(photographs, (size, size), axis=(1, 2))
    chosen = np.unravel_index(epoch_indices(seed, 0, total)[:num], windows.shape[:3])
    return np.ascontiguousarray(np.moveaxis(windows[chosen], 1, -1))


def _shrunk(photo: np.ndarray, channels: int, factor: int) -> np.ndarray:
    """Returns box-averaged grey or colour levels; integer sums are rounded once."""
    levels = photo.astype(np.int64)
    levels, weight = (levels @ LUMA[:, None], LUMA.sum()) if channels == 1 else (levels, 1)
    height, width = (side // factor for side in levels.shape[:2])
    blocks = levels[: height * factor, : width * factor].reshape(
        height, factor, width, factor, channels
    )
    return np.rint(blocks.sum(axis=(1, 3)) / (weight * factor**2)).astype(np.uint8)
