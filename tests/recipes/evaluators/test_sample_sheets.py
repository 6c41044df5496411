"""Sheets of samples: what stands beside them, sorted alike, with their classes."""

import numpy as np
import pytest
from PIL import Image

from ebmjax._stored import map_rows
from ebmjax.recipes.evaluators import samples
from ebmjax.recipes.run import use

IMAGES = np.random.default_rng(0).integers(0, 256, (700, 4, 4, 3), np.uint8)


@pytest.mark.parametrize("are_stored", [False, True])
def test_the_nearest_training_image_is_found_in_every_part(are_stored):
    train = map_rows(lambda some: some, IMAGES, np.uint8) if are_stored else IMAGES
    wanted = [3, samples.AT_ONCE - 1, samples.AT_ONCE, len(IMAGES) - 1]
    ours = np.clip(IMAGES[wanted].astype(int) + 2, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(samples.nearest_images(ours, train), IMAGES[wanted])


def test_all_panels_are_sorted_by_class(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        samples, "tiles", lambda _, images, __, title, ___: drawn.update({title: images})
    )
    arrays = {"images": IMAGES[:5], "start_images": IMAGES[5:10]}
    use._png(tmp_path / "sheet.png", arrays | {"labels": np.array([2, 0, 1, 0, 2])})
    order = [1, 3, 2, 0, 4]
    np.testing.assert_array_equal(drawn["samples"], IMAGES[order])
    np.testing.assert_array_equal(drawn["where their chains started"], IMAGES[5:10][order])


@pytest.mark.parametrize(("num", "has_classes"), [(1, False), (23, True), (3000, False)])
def test_a_sheet_of_any_size_shows_every_pixel(tmp_path, num, has_classes):
    images = np.resize(IMAGES, (num, 4, 4, 3))
    arrays = {"images": images, "start_images": images, "unused": np.zeros(num)}
    arrays |= {"labels": np.arange(num) % 10} if has_classes else {}
    use._png(tmp_path / "sheet.png", arrays)
    with Image.open(tmp_path / "sheet.png") as picture:
        width, height = picture.size
    columns = min(max(10, int(num**0.5)), num)
    assert width >= 2 * 5 * columns
    assert height >= 5 * -(-num // columns)
    assert max(width, height) < 3000
