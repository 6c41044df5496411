"""The house holds its budget, and docs/design.md says its true size."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from ebmjax._shown import trim
from ebmjax.recipes.config.families import is_points

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "docs" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_room_is_larger_than_its_budget(house):
    assert house.over_budget(house.measure_sizes()) == {}, "take something out of these rooms"


def test_a_room_that_grows_or_is_new_is_over_budget(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "BUDGET", tmp_path / "budget.toml")
    house.BUDGET.write_text(house.lower({"a": 5, "b": 7}))
    assert house.over_budget({"a": 5, "b": 7}) == {}
    assert house.over_budget({"a": 6, "b": 6, "c": 1}) == {"a": (6, 5), "c": (1, None)}
    house.BUDGET.write_text(house.lower({"a": 9, "b": 6}))
    assert house.over_budget({"a": 6, "b": 7}) == {"a": (6, 5), "b": (7, 6)}


def test_design_md_says_the_size(house):
    page = house.DESIGN.read_text()
    for name, number in house.sum_sizes(house.measure_sizes()).items():
        assert f"| {name} | {number} |" in page, "python docs/house.py --write"


@pytest.mark.slow
def test_design_md_says_what_a_reader_has_to_follow(house):
    # In a process of its own: what other tests imported is no part of a step.
    table = subprocess.check_output([sys.executable, ROOT / "docs" / "house.py"], text=True)
    page = house.DESIGN.read_text()
    assert house.BEGIN + table.strip() + "\n" + house.END in page, "python docs/house.py --write"


def test_frames_entered(house):
    def run():
        is_points(ConfigDict({"family": "energy", "data": {"name": "gmm"}}))
        return [trim("text") for _ in range(2)]

    found = [entry[1:] for entry in house.frames_entered(run)]
    assert found == [("is_points", True), ("trim", False), ("trim", False)]
