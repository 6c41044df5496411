"""The tuning study of SVGD: its rows and figures, and what it trains on."""

import jax
import numpy as np
import pytest
from experiment_runs import EXPERIMENTS

from ebmjax import data
from ebmjax.recipes.config.command_line import read as configuration
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.config.files import beside
from ebmjax.recipes.models.energy import parts
from ebmjax.recipes.parts import image_data

tuning = beside(str(EXPERIMENTS / "studies" / "jem_digits.py"), "svgd_tuning.py")
TEN = ["--config.data.num_per_class=1"]


def digits(*arguments):
    return configuration("configs/svgdjem_digits.py:corrected", arguments)


def test_images_are_the_first_of_each_class():
    images = data.load_digits("train")
    found = parts.take_images(digits("--config.data.num_per_class=2"), images)
    np.testing.assert_array_equal(found.labels, np.repeat(np.arange(10), 2))
    for label in range(10):
        theirs = images.images[images.labels == label]
        np.testing.assert_array_equal(found.images[2 * label : 2 * label + 2], theirs[:2])
    assert parts.take_images(digits(), images) is images


def test_a_class_without_so_many_images_is_refused():
    config = digits("--config.data.num_per_class=9", "--config.data.max_train=60")
    with pytest.raises(ConfigError, match=r"data\.num_per_class must .*got 9 where .* has \d of"):
        parts.take_images(config, image_data.load(config)[0].train)


def test_the_informative_start_is_fitted_to_all_images():
    def starts(*arguments):
        config = digits(*arguments)
        start_fn = parts.chain_plan(config, image_data.load(config)[0].train).start_fn
        return start_fn(jax.random.key(0), 3)

    np.testing.assert_array_equal(starts(*TEN), starts())
