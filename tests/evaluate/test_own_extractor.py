"""An extractor of the user: checked, and named in a run."""

import numpy as np
import pytest

from ebmjax import data
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.config.families import extractor_name
from ebmjax.recipes.evaluators.evaluations import check_features, make_distances
from experiments.configs import jem_digits

SOURCE = """
import numpy as np

def rows(images):
    assert type(images) is np.ndarray  # host code is not traced
    return images.mean(axis=(2, 3)) + 1.0

def square(images):
    return images

def broken(images):
    raise RuntimeError("no weights")
"""
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1), np.uint8)
TRAIN = data.ImageData(IMAGES, np.zeros(40, np.int32))


@pytest.fixture
def own(tmp_path):
    """The user's file."""
    (tmp_path / "own.py").write_text(SOURCE)
    return tmp_path / "own.py"


def config_with(own, function, **fields):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict({"evals.extractor": f"{own}:{function}", **fields})
    families.check(config)
    return config


def test_a_run_is_judged_by_it(own):
    config = config_with(own, "rows")
    assert extractor_name(config) == "rows"
    distances = make_distances(config, "rows", TRAIN, TRAIN)
    check_features(config, distances)
    found = distances.scores(IMAGES + np.uint8(0)).numbers
    assert found["fid"] == pytest.approx(0.0, abs=1e-6)
    assert "is" not in found
    assert distances.extractor.name == "rows"


@pytest.mark.parametrize(
    ("function", "fields", "text"),
    [
        ("square", {}, r"config\.evals\.extractor=.*own\.py:square.*finite features of shape"),
        ("broken", {}, r"config\.evals\.extractor=.* line 12: RuntimeError: no weights"),
        ("missing", {}, r"config\.evals\.extractor=.*must name a function"),
    ],
)
def test_mistakes_are_told_before_training(function, fields, text, own):
    config = config_with(own, function, **fields)
    with pytest.raises(ConfigError, match=text):
        check_features(config, make_distances(config, "rows", TRAIN, TRAIN))
