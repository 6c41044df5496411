"""The detector of foreign images, and a warning where log p(x) ranks them above test images."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import ood

RNG = np.random.default_rng(0)
IMAGES = ImageData(RNG.integers(90, 160, (60, 8, 8, 1)).astype(np.uint8), np.zeros(60, np.int32))


def likes_smooth_images(x):
    """log p(x) of pixels that differ little from the next, for two classes."""
    rough = jnp.sum(jnp.square(jnp.diff(x, axis=1)), axis=(1, 2, 3))
    return jnp.stack([-rough, -rough], axis=1)


def test_a_density_of_smooth_images_is_told_and_typicality_takes_its_place():
    model = SimpleNamespace(
        logits=jax.tree_util.Partial(likes_smooth_images),
        train=IMAGES,
        held_out=None,
        config=SimpleNamespace(evals=SimpleNamespace(batch_size=32)),
    )
    with pytest.warns(UserWarning, match="ranks .*constant.* above test images.*typicality"):
        found = ood.ood(jax.random.key(0), model, IMAGES)
    report = found.report["ood"]
    assert report["sets"]["constant"]["log_density"]["auroc"] == 0.0
    assert report["sets"]["constant"]["typicality"]["auroc"] == 1.0
    assert report["detector"]["name"] == "typicality"


def test_the_detector_is_the_best_where_it_is_worst():
    inside = {"a": np.array([1.0, 2.0]), "b": np.array([1.0, 2.0])}
    outside = {
        "near": {"a": np.array([0.0, 1.5]), "b": np.array([0.0, 0.5])},
        "far": {"a": np.array([0.0, 0.0]), "b": np.array([0.5, 1.5])},
    }
    assert ood.choose_detector(inside, outside) == ("a", 0.75)
    outside["far"]["b"] = np.array([0.0, 0.0])
    assert ood.choose_detector(inside, outside) == ("b", 1.0)
