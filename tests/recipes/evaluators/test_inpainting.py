"""Scores of completed images by hand, masks of every kind, and pictures."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from ebmjax import data
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import inpainting
from ebmjax.recipes.evaluators.inpainting import Given, find_mask, score

IMAGES = jnp.zeros((1, 4, 8, 1))
FREE = np.arange(32).reshape(4, 8) % 3 == 0


def test_scores_of_three_samples_by_hand():
    """Two free pixels of two images; the third pixel is given and not scored."""
    mask = np.array([[True, True, False]])
    truth = np.array([[10, 200, 7], [50, 60, 7]], np.uint8).reshape(2, 1, 3, 1)
    drawn = [[[10, 100], [20, 100], [30, 130]], [[50, 60]] * 3]
    images = np.full((2, 3, 1, 3, 1), 99, np.uint8)
    images[:, :, 0, :2, 0] = drawn
    starts = images[:, ::-1] + np.uint8(1)
    found = {"images": images, "start_images": starts, "mask": mask}
    report, per_image = score(found, truth)
    errors = np.array(drawn[0]) - [10, 200]
    of_mean = np.mean(errors.mean(axis=0) ** 2)
    decibel = lambda square: 10 * np.log10(255**2 / square)  # noqa: E731
    np.testing.assert_allclose(per_image["psnr"], [decibel(of_mean), decibel(1 / 12)])
    of_one = np.mean([decibel(np.mean(e**2)) for e in errors])
    np.testing.assert_allclose(per_image["sample_psnr"], [of_one, decibel(1 / 12)])
    np.testing.assert_allclose(per_image["coverage"], [0.5, 1.0])  # of lowest to highest
    np.testing.assert_allclose(per_image["start_coverage"], [0.0, 0.0])
    assert report["coverage"] == 0.75
    assert report["coverage_error"] == pytest.approx(np.std([0.5, 1], ddof=1) / 2**0.5)
    assert report["psnr_minus_starts"] == pytest.approx(report["psnr"] - report["start_psnr"])
    assert (report["num_samples"], report["expected_coverage"]) == (3, 0.5)


@pytest.mark.parametrize(("num", "expected"), [(8, 7 / 9), (19, 0.9), (39, 0.9), (50, 47 / 51)])
def test_truth_of_the_samples_law_is_covered_as_expected(num, expected):
    """Pixels are independent here, so that the share over all of them is binomial."""
    rng = np.random.default_rng(0)
    every = rng.normal(size=(400, num + 1, 5, 5, 1))  # without ties
    found = {
        "images": every[:, 1:],
        "start_images": every[:, 1:] * 0.5,
        "mask": np.ones((5, 5), bool),
    }
    report, _ = score(found, every[:, 0])
    assert report["expected_coverage"] == pytest.approx(expected)
    error = (expected * (1 - expected) / (400 * 25)) ** 0.5
    assert abs(report["coverage"] - expected) < 5 * error
    assert report["start_coverage"] < expected - 5 * error
    assert report["coverage_error"] == pytest.approx(error, rel=0.2)  # deviates by 3.5 %


def test_masks_are_words_arrays_or_files(tmp_path):
    left, centre = find_mask("left", IMAGES), find_mask("centre", IMAGES)
    assert np.argwhere(left.all(axis=0)).ravel().tolist() == [0, 1, 2, 3]
    assert left.sum() == 16
    assert centre[1:3, 2:6].all()
    assert centre.sum() == 8
    np.save(tmp_path / "mask.npy", FREE.astype(np.float32) / 7)
    Image.fromarray(np.uint8(255 * FREE)).save(tmp_path / "mask.png")
    for mask in (FREE, FREE.astype(int), str(tmp_path / "mask.npy"), str(tmp_path / "mask.png")):
        np.testing.assert_array_equal(find_mask(mask, IMAGES), FREE)


@pytest.mark.parametrize(
    "mask", [None, "right", FREE.T, np.ones((4, 8)), np.zeros((4, 8)), FREE[..., None]]
)
def test_other_masks_are_refused(mask):
    with pytest.raises(ConfigError, match=r"file of shape \(4, 8\), of which some pixels are free"):
        find_mask(mask, IMAGES)


def stub(offset=0.0):
    """A model whose chains start at -1 in free pixels, and end at the mean of the given ones."""

    def conditional_chains(given, num, num_steps, label):
        def one(shared, row):
            starts = jnp.full((num, *row[1][given.mask].shape), -1.0)
            mean = jnp.mean(row[1], where=~given.mask[..., None])
            return starts, jnp.zeros_like(starts) + mean + shared

        return one, offset, None

    config = SimpleNamespace(evals=SimpleNamespace(batch_size=4))
    return SimpleNamespace(config=config, conditional_chains=conditional_chains)


def test_the_evaluator_scores_and_draws_test_images(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 8, 1), np.uint8)
    split = data.ImageData(images, np.zeros(5, np.int32))
    found = inpainting.inpainting(
        jax.random.key(0), stub(), split, num_images=3, num_samples=2, mask="left"
    )
    right = images[:3, :, 4:].mean(axis=(1, 2, 3), keepdims=True)
    squares = np.mean((images[:3, :, :4] - np.round(right)) ** 2, axis=(1, 2, 3))
    per_image = found.per_image["inpainting.psnr"]["test"]
    np.testing.assert_allclose(per_image, 10 * np.log10(255**2 / squares), atol=0.1)
    assert found.report["inpainting"]["psnr"] == pytest.approx(per_image.mean())
    found.pictures["inpainting"](tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as sheet:
        assert min(sheet.size) > 100


def test_given_pixels_stay_and_diverged_chains_are_told():
    signed = jnp.linspace(-1, 1, 96).reshape(3, 4, 8, 1)
    given = Given(signed, FREE)
    found = given.run(jax.random.key(0), stub(), 2, None, None)
    kept = np.asarray(data.from_signed_unit(signed))
    for name in ("images", "start_images"):
        for drawn in found[name].swapaxes(0, 1):
            np.testing.assert_array_equal(drawn[:, ~FREE], kept[:, ~FREE])
    assert np.all(found["start_images"][:, :, FREE] == 0)
    with pytest.raises(ConfigError, match="6 of 6 chains diverged"):
        given.run(jax.random.key(0), stub(jnp.nan), 2, None, None)
