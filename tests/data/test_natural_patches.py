"""Patches found again in the photographs."""

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from ebmjax.data import natural_patches


@pytest.fixture(scope="module")
def photographs():
    return load_sample_images().images


def windows(photo, size):
    """(places, size, size, channels)."""
    view = np.lib.stride_tricks.sliding_window_view(photo, (size, size), axis=(0, 1))
    return np.moveaxis(view.reshape(-1, *view.shape[2:]), 1, -1)


def is_cut_from(patch, photo):
    """Looks for a window of the photograph that equals the patch pixel by pixel."""
    patch, photo = (image.astype(np.int32) @ [1 << 16, 1 << 8, 1] for image in (patch, photo))
    size = len(patch)
    rows, columns = photo.shape[0] - size + 1, photo.shape[1] - size + 1
    row, column = np.nonzero(photo[:rows, :columns] == patch[0, 0])
    for down, right in np.ndindex(size, size):
        is_left = photo[row + down, column + right] == patch[down, right]
        row, column = row[is_left], column[is_left]
    return row.size > 0


def test_colour_patches_are_cut_from_the_photographs(photographs):
    patches = natural_patches(40, size=9, channels=3, seed=0)
    assert (patches.shape, patches.dtype) == ((40, 9, 9, 3), np.uint8)
    found = [[is_cut_from(patch, photo) for photo in photographs] for patch in patches]
    assert np.all(np.any(found, axis=1))
    # Each photograph is as likely: 5 standard errors of 40 fair coins would forbid 4 and 36.
    assert np.all(np.sum(found, axis=0) > 4)


@pytest.mark.parametrize(("channels", "mode"), [(3, "RGB"), (1, "L")])
def test_shrinking_and_grey_agree_with_pillow(photographs, channels, mode):
    factor, size = 4, 427 // 4
    reduced = [
        np.asarray(Image.fromarray(photo[: factor * size]).convert(mode).reduce(factor))
        for photo in photographs
    ]
    every = np.concatenate([windows(r.reshape(size, 160, channels), size) for r in reduced])
    patches = natural_patches(6, size=size, channels=channels, seed=1, downscale=factor)
    for patch in patches:
        # Ours rounds once (1/2 level), Pillow twice (1 level): integers that differ by at most 1.
        distance = np.abs(every.astype(int) - patch).max(axis=(1, 2, 3))
        assert distance.min() <= 1
        assert np.sort(distance)[1] > 1, "the place is recognised, not just any"


def test_all_places_are_used_once_when_all_are_asked_for(photographs):
    size = 420  # 8 x 221 places in each photograph
    with pytest.raises(ValueError, match=r"num must be at most the 3536 places .*427x640"):
        natural_patches(3537, size=size, channels=1, seed=0)
    size = 103  # at 1/4: 4 x 58 places in each
    patches = natural_patches(464, size=size, channels=1, seed=0, downscale=4)
    assert len(np.unique(patches.reshape(464, -1), axis=0)) == 464


def test_seeds_decide_and_more_patches_only_add():
    few, many, other = (
        natural_patches(num, size=8, channels=1, seed=seed, downscale=4)
        for num, seed in [(5, 0), (20, 0), (5, 1)]
    )
    np.testing.assert_array_equal(few, many[:5])
    assert np.any(few != other)


def test_bad_arguments_are_named():
    for name, value in {"num": 0, "size": 0, "seed": -1}.items():
        arguments = {"num": 2, "size": 8, "channels": 1, "seed": 0, name: value}
        with pytest.raises(ValueError, match=rf"{name} must be an integer of at least"):
            natural_patches(arguments.pop("num"), **arguments)
    with pytest.raises(ValueError, match=r"channels must be 1 \(grey\) or 3"):
        natural_patches(1, size=8, channels=0, seed=0)
    with pytest.raises(ValueError, match=r"at most the 0 places of a 54x54 patch.*53x80"):
        natural_patches(1, size=54, channels=1, seed=0, downscale=8)
