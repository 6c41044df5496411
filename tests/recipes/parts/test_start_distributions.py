import numpy as np
import pytest

from ebmjax import data
from ebmjax.recipes.parts.start_distributions import split_images


def make_gratings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Gratings of two directions, shifted at random: only their spectra tell them apart."""
    kinds, shifts = np.arange(160) % 2, rng.uniform(0, 4, 160)
    waves = np.sin(np.pi / 2 * (np.arange(8) + 0.5 + shifts[:, None]))
    across = np.broadcast_to(waves[:, None, :], (160, 8, 8))
    return np.where(kinds[:, None, None], across, across.swapaxes(1, 2)), kinds


def make_spots(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A spot of random brightness at one of two places: spectra do not tell them apart."""
    kinds = np.arange(160) % 2
    x = np.zeros((160, 8, 8))
    x[:, 1:3, 1:3] = (1 - kinds)[:, None, None]
    x[:, 5:7, 5:7] = kinds[:, None, None]
    return x * rng.uniform(0.5, 1.0, (160, 1, 1)), kinds


@pytest.mark.parametrize("make", [make_gratings, make_spots])
def test_clusters_are_of_one_kind_whether_pixels_or_spectra_tell_kinds_apart(make):
    rng = np.random.default_rng(0)
    x, kinds = make(rng)
    noisy = 127.5 + 80 * x + 4 * rng.normal(size=x.shape)
    images = np.uint8(noisy.clip(0, 255))[..., None]
    split = split_images(data.ImageData(images, np.zeros(160, np.int32)))
    assert np.bincount(split.labels).tolist() == [20] * 8
    shares = np.array([kinds[split.labels == label].mean() for label in range(8)])
    assert set(shares) == {0.0, 1.0}


@pytest.mark.parametrize(("num", "clusters"), [(2, 1), (19, 1), (40, 4)])
def test_few_images_make_few_clusters(num, clusters):
    images = np.random.default_rng(0).integers(0, 256, (num, 3, 3, 1)).astype(np.uint8)
    split = split_images(data.ImageData(images, np.zeros(num, np.int32)))
    assert len(np.unique(split.labels)) == clusters
