import jax
import numpy as np
import pytest

from ebmjax import data
from ebmjax.recipes.parts.start_distributions import Plan, _fit, fit_base


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
    x = np.float32(0.6 * x + 0.03 * rng.normal(size=x.shape))[..., None]
    plan = Plan(is_of_spectra=make is make_gratings, num_clusters=8, num_directions=4)
    fitted, classes = _fit(x, np.zeros(160, int), x, plan)
    found = np.asarray(jax.jit(jax.vmap(fitted.find_likeliest))(x))
    kind_of = np.array([np.mean(kinds[found == label]) > 0.5 for label in range(len(classes))])
    assert np.mean(kind_of[found] == kinds) > 0.95  # chance: 0.5
    assert {*kind_of.tolist()} == {False, True}


def test_classes_weigh_as_they_are_shared_and_draws_are_of_the_class_asked_for():
    """One class is bright. 5 standard errors of 400 draws of any."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [120, 40]).astype(np.int32)
    images = rng.integers(0, 60, (160, 4, 4, 1)) + 150 * labels.reshape(-1, 1, 1, 1)
    base, _ = fit_base(data.ImageData(images.astype(np.uint8), labels), has_classes=True)
    draw = jax.jit(jax.vmap(base.draw, (0, None)))
    keys = jax.random.split(jax.random.key(0), 400)
    bright = {label: np.mean(draw(keys, label) > 0, axis=(1, 2, 3)) > 0.5 for label in (-1, 0, 1)}
    assert bright[1].all()
    assert not bright[0].any()
    assert abs(bright[-1].mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 400)


@pytest.mark.parametrize("counts", [(2,), (19,), (40, 40, 1, 1, 1), (1,) * 10])
def test_classes_of_few_images_have_a_gaussian_each(counts):
    labels = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 4, 4, 1)).astype(np.uint8)
    base, _ = fit_base(data.ImageData(images, labels), has_classes=True)
    assert {*np.asarray(base.classes).tolist()} == {*range(len(counts))}
    assert np.all(np.isfinite(base.gaussians.log_weights))
