import jax
import numpy as np
import pytest

from ebmjax import data
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.parts.start_distributions import fit_base, read_base, write_base


def make_images(counts: tuple[int, ...]) -> data.ImageData:
    labels = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    levels = np.random.default_rng(0).integers(0, 256, (len(labels), 4, 4, 1))
    return data.ImageData(levels.astype(np.uint8), labels)


def test_classes_weigh_as_they_are_shared_and_draws_are_of_the_class_asked_for():
    """One class is bright. 5 standard errors of 400 draws of any."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [120, 40]).astype(np.int32)
    images = rng.integers(0, 60, (160, 4, 4, 1)) + 150 * labels.reshape(-1, 1, 1, 1)
    base, _ = fit_base(data.ImageData(images.astype(np.uint8), labels))
    draw = jax.jit(jax.vmap(base.draw, (0, None)))
    keys = jax.random.split(jax.random.key(0), 400)
    bright = {label: np.mean(draw(keys, label) > 0, axis=(1, 2, 3)) > 0.5 for label in (-1, 0, 1)}
    assert bright[1].all()
    assert not bright[0].any()
    assert abs(bright[-1].mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 400)


@pytest.mark.parametrize("counts", [(2,), (19,), (40, 40, 1, 1, 1), (1,) * 10])
def test_classes_of_few_images_have_a_component_each(counts):
    base, _ = fit_base(make_images(counts))
    assert {*np.asarray(base.classes).tolist()} == {*range(len(counts))}
    assert np.all(np.isfinite(base.density.log_weights))


def test_a_run_keeps_its_autoregressive_base_and_refuses_a_broken_one(tmp_path):
    """Rows that repeat the first one, in black and white, are not Gaussian."""
    images, labels = make_images((100, 60))
    base, about = fit_base(data.ImageData(255 * (0 * images + images[:, :1] // 128), labels))
    assert "autoregressive" in about
    write_base(base, tmp_path)
    found = read_base(tmp_path)
    assert found is not None
    jax.tree.map(np.testing.assert_array_equal, found[0], base)
    (tmp_path / "base.npz").write_bytes(b"PK")
    with pytest.raises(ConfigError, match=r"base.npz.*cannot be read.*new folder"):
        read_base(tmp_path)
