"""Every file of experiments/configs: its text, its variants and their fields."""

import json
import re
import runpy
from types import SimpleNamespace

import pytest
from experiment_runs import EXPERIMENTS

from ebmjax.recipes.config import families, show_fields
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.models import build

FILES = {path.name: path for path in sorted((EXPERIMENTS / "configs").glob("*.py"))}
MODULES = {name: SimpleNamespace(**runpy.run_path(str(path))) for name, path in FILES.items()}
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
        MODULES[name].get_config("nonsense")


@pytest.mark.parametrize(("name", "variant"), ALL)
def test_a_variant_is_a_valid_configuration_and_survives_json(name, variant, tmp_path):
    config = MODULES[name].get_config(variant)
    families.check(config)
    families.prune(config)
    families.check(config)
    if "smoke" in variant:  # one measurement, of 16 samples
        plan = build.plan(config, config.data.max_train)
        assert [*filter(plan.is_monitored, range(plan.total_steps + 1))] == [plan.total_steps]
        drawn = {config.get(f"evals.{name}.num_images", 16) for name in ("samples", "generation")}
        assert drawn == {16}
    (tmp_path / "config.json").write_text(json.dumps(as_json(config), allow_nan=False))
    assert run_folder.config_of(tmp_path) == config
