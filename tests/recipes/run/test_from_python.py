"""A run that is trained from Python is that of the command, with its folder."""

import json

import jax
import numpy as np
import pytest

from ebmjax import recipes
from ebmjax.recipes.config.errors import ConfigError

FIELDS = {"train.batch_size": 8}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8), np.uint8), np.arange(60) % 3
    train = lambda images: recipes.train(  # noqa: E731
        "configs/joint.py:smoke", images, labels, folder=folder, fields=FIELDS
    )
    return train(images), train, images, folder


@pytest.mark.slow
def test_a_run_of_arrays_is_a_run_of_the_command(trained, capsys):
    run, train, images, folder = trained
    config = json.loads((folder / "config.json").read_text())
    assert (config["data"]["name"], config["train"]["batch_size"]) == ("npz", 8)
    assert (folder / "summary.json").exists()
    assert run.input_shape == (8, 8, 1)
    assert run.sample(jax.random.key(0), 4)["images"].shape == (4, 8, 8, 1)
    again = train(images)  # nothing is left to do
    jax.tree.map(np.testing.assert_array_equal, again.params, run.params)


@pytest.mark.slow
def test_other_images_are_refused(trained):
    _, train, images, _ = trained
    with pytest.raises(ConfigError, match=r"mine\.npz holds other images"):
        train(images[::-1])


def test_a_wrong_field_is_an_error_and_leaves_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="no_field"):
        recipes.train("configs/joint.py:smoke", folder=tmp_path / "a", fields={"no_field": 1})
    assert not list(tmp_path.iterdir())
