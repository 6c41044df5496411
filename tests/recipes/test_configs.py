"""Every file of experiments/configs: its text, its variants and their fields."""

import json
import re
from functools import partial
from types import SimpleNamespace

import pytest
from experiment_runs import EXPERIMENTS, change

from ebmjax.recipes.config import families, files, show_fields
from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.folder.run_folder import as_json


def load(path):
    return SimpleNamespace(get_config=partial(files.make_config, path))


FILES = {path.name: path for path in sorted((EXPERIMENTS / "configs").glob("*.py"))}
MODULES = {name: load(path) for name, path in FILES.items()}
VARIANTS = {name: show_fields.variants(path) for name, path in FILES.items()}
ALL = [(name, variant) for name in FILES for variant in ["", *VARIANTS[name]]]


@pytest.mark.parametrize("name", FILES)
def test_the_head_of_a_config_says_what_to_expect(name):
    text = FILES[name].read_text()
    for part in ("Claim:", "Paper:", "Expected numbers"):
        assert part in text, part
    expected = text.partition("Expected numbers")[2]
    assert re.search(r"not yet run|\b20\d\d-\d\d-\d\d\b", expected), "neither a date nor a no"
    assert "smoke" in VARIANTS[name]
    with pytest.raises(ValueError, match="unknown variant 'nonsense'; there are "):
        files.make_config(FILES[name], "nonsense")


@pytest.mark.parametrize(("name", "variant"), ALL)
def test_a_variant_is_a_valid_configuration_and_survives_json(name, variant):
    config, restored = files.make_config(FILES[name], variant), files.make_config(FILES[name])
    families.check(config)
    families.prune(config)
    families.check(config)
    saved = json.loads(json.dumps(as_json(config), allow_nan=False))
    flat = flatten(saved).items()
    change(restored, {k: tuple(value) if type(value) is list else value for k, value in flat})
    families.prune(restored)
    assert restored == config
