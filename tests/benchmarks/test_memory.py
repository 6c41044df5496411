"""The memory of placements: images are written, and a row says what each takes."""

import numpy as np


def test_images_of_random_levels_are_written(load, tmp_path):
    load("memory").write_images(tmp_path / "images", 100)
    images = np.load(tmp_path / "images" / "images.npy")
    assert images.shape == (100, 32, 32, 3)
    assert images.std() > 70  # that of uniform levels is 74
