"""Every file of experiments/configs: its text, its fields, its place in the documentation."""

import importlib.util
import json
import re

import pytest
from experiment_runs import EXPERIMENTS
from ml_collections import ConfigDict

from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.config.show_configs import variants
from ebmjax.recipes.folder.run_folder import as_json

FILES = sorted((EXPERIMENTS / "configs").glob("*.py"))
SECTIONS = {"seed", "data", "model", "sampler", "loss", "optimizer", "train", "mesh", "eval"}


def load(path):
    spec = importlib.util.spec_from_file_location(f"config_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {path.name: load(path) for path in FILES}


ALL = [(path.name, variant) for path in FILES for variant in ["", *variants(path)]]


@pytest.mark.parametrize("name", MODULES)
def test_every_file_has_a_smoke_run_and_refuses_other_variants(name):
    with pytest.raises(ValueError, match=r"unknown variant 'nonsense'; there are .*smoke"):
        MODULES[name].get_config("nonsense")


@pytest.mark.parametrize("name", MODULES)
def test_the_head_of_a_config_says_how_to_run_it_and_what_to_expect(name):
    text = MODULES[name].__doc__
    for part in ("Claim:", "Paper:", "Command:", "Hardware:", "Expected numbers"):
        assert part in text, part
    assert f"python experiments/run.py --config=configs/{name}" in text
    expected = text.partition("Expected numbers")[2]
    assert re.search(r"not yet run|\b20\d\d-\d\d-\d\d\b", expected), "neither a date nor a no"


@pytest.mark.parametrize(("name", "variant"), ALL)
def test_a_variant_is_a_valid_configuration(name, variant):
    config = MODULES[name].get_config(variant)
    assert isinstance(config, ConfigDict)
    families.check(config)
    assert set(config) == SECTIONS | {"family"}
    assert flatten(config.to_dict()).keys() == flatten(MODULES[name].get_config().to_dict()).keys()


@pytest.mark.parametrize(("name", "variant"), ALL)
def test_a_variant_survives_json(name, variant):
    config = MODULES[name].get_config(variant)
    saved = json.loads(json.dumps(as_json(config), allow_nan=False))
    restored = MODULES[name].get_config()
    for field, value in flatten(saved).items():
        restored.update_from_flattened_dict({field: tuple(value) if type(value) is list else value})
    for one in (restored, config):
        families.prune(one)
    assert restored == config
