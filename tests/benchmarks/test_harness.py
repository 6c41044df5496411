"""The harness of all benchmarks: turns, medians, ratios, the table and its files."""

import itertools
import json
import math
from types import SimpleNamespace

import jax.numpy as jnp
import pytest
from PIL import Image


@pytest.fixture
def harness(load):
    return load("_harness")


def test_the_first_turn_warms_up_and_all_take_turns(harness):
    asked = []

    def measure(name):
        asked.append(name)
        return len(asked)

    found = harness.take_turns({name: lambda name=name: measure(name) for name in "ab"}, 2)
    assert asked == ["a", "b"] * 3
    assert found == {"a": [3, 5], "b": [4, 6]}


def test_times_are_those_of_a_call(harness, monkeypatch):
    clock = itertools.accumulate(itertools.cycle([1.0, 0.25]))  # a call takes 0.25 s
    monkeypatch.setattr(harness, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = harness.time_in_turn({"a": lambda: jnp.ones(2)}, 3)
    assert found == {"a": [0.25] * 3}
    assert harness.median_ms([0.5, 0.001, 0.002]) == 2.0


def test_the_ratio_is_the_median_of_ratios_not_the_ratio_of_medians(harness):
    assert harness.spread_of_ratios([2.0, 6.0, 4.0], [1.0, 4.0, 8.0]) == (1.5, 0.5, 2.0)


def test_compiled_memory_counts_what_a_program_holds(harness):
    program, seconds = harness.compile_program(lambda x: x @ x, jnp.ones((64, 64)))
    found = harness.memory_mib(program)
    assert seconds > 0
    assert found["argument"] == found["output"] == 64 * 64 * 4 / 2**20
    assert found["peak"] == found["argument"] + found["output"] + found["temp"]


def test_rows_become_a_table_json_and_a_figure(harness, tmp_path, capsys):
    folder, ratio = tmp_path / "new" / "results", harness.Spread(0.5, 0.25, 1.5)
    nothing = harness.Spread(math.nan, math.nan, math.nan)
    rows = [{"who": "ours", "ms": 1234.5678, "ratio": ratio}, {"who": "b", "ratio": nothing}]
    harness.report("times", rows, folder, "2 repeats", more="and more")
    printed = capsys.readouterr().out
    head, *table, more = printed.splitlines()
    assert "  2 repeats  load " in head
    assert [line.split() for line in table] == [
        ["who", "ms", "ratio"],
        ["-" * 31],
        ["ours", "1235", "0.500", "(0.250-1.500)"],
        ["b", "-", "-"],
    ]
    assert more == "and more"
    assert (folder / "times.txt").read_text() == printed
    saved = json.loads((folder / "times.json").read_text())
    assert saved["machine"] == head
    numbers = {"ratio": 0.5, "ratio_low": 0.25, "ratio_high": 1.5}
    assert saved["rows"][0] == {"who": "ours", "ms": 1234.5678, **numbers}
    assert saved["rows"][1] == {"who": "b", **dict.fromkeys(numbers)}
    with Image.open(folder / "times.png") as image:
        assert len(image.convert("RGB").getcolors(maxcolors=2**24)) > 3


def test_nothing_is_written_without_out(harness, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    harness.report("times", [{"who": "ours"}], None)
    assert not list(tmp_path.iterdir())
