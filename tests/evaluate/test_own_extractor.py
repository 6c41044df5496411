"""An extractor of the user: checked, named in a run, and its features of the data kept."""

import importlib.util

import numpy as np
import pytest

from ebmjax import data, evaluate
from ebmjax._groups import over_devices
from ebmjax.evaluate import Distances, _extractors
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.config.families import extractor_name
from ebmjax.recipes.evaluators.evaluations import check_features, make_distances
from experiments.configs import jem_digits

SOURCE = """
import numpy as np

calls = []

def rows(images):
    assert type(images) is np.ndarray  # host code is not traced
    calls.append(len(images))
    return images.mean(axis=(2, 3)) + 1.0

def square(images):
    return images

def broken(images):
    raise RuntimeError("no weights")
"""
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1), np.uint8)
TRAIN = data.ImageData(IMAGES, np.zeros(40, np.int32))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(_extractors, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path):
    """The user's file."""
    (tmp_path / "own.py").write_text(SOURCE)
    return tmp_path / "own.py"


def load(file):
    spec = importlib.util.spec_from_file_location("own", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(module, images=IMAGES):
    made = Distances(TRAIN._replace(images=images), evaluate.own_extractor(module.rows))
    with over_devices():
        return made.train_reference.features, sum(module.calls)


def test_features_of_the_data_are_kept_until_the_data_or_the_file_change(own, cache):
    first, calls = reference(load(own))
    np.testing.assert_allclose(first, IMAGES.mean(axis=(2, 3)) + 1.0)
    assert calls >= len(IMAGES)
    again, calls = reference(load(own))
    np.testing.assert_array_equal(again, first)
    assert calls == 0
    assert reference(load(own), IMAGES[::-1].copy())[1] > 0
    own.write_text(SOURCE.replace("+ 1.0", "+ 2.0"))
    changed, calls = reference(load(own))
    np.testing.assert_allclose(changed, first + 1.0)
    assert calls > 0
    assert len(list(cache.glob("features_*.npz"))) == 3
    for file in cache.iterdir():
        file.write_bytes(b"damaged")
    np.testing.assert_array_equal(reference(load(own))[0], changed)


def config_with(own, function, **fields):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict({"evals.extractor": f"{own}:{function}", **fields})
    families.check(config)
    return config


def test_a_run_is_judged_by_it(own):
    config = config_with(own, "rows")
    assert extractor_name(config) == "rows"
    with pytest.raises(ConfigError, match=r"keep_best must be one of \[.*'sample_kid', 'test_"):
        config_with(own, "rows", **{"train.keep_best": "sample_is"})
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
        ("broken", {}, r"config\.evals\.extractor=.* line 15: RuntimeError: no weights"),
        ("missing", {}, r"config\.evals\.extractor=.*must name a function"),
    ],
)
def test_mistakes_are_told_before_training(function, fields, text, own):
    config = config_with(own, function, **fields)
    with pytest.raises(ConfigError, match=text):
        check_features(config, make_distances(config, "rows", TRAIN, TRAIN))
