"""The harness of all benchmarks: turns, ratios, table, JSON and --help; and the site's list."""

import json
import math
import runpy
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest


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


def test_the_ratio_is_the_median_of_ratios_not_the_ratio_of_medians(harness):
    assert harness.spread_of_ratios([2.0, 6.0, 4.0], [1.0, 4.0, 8.0]) == (1.5, 0.5, 2.0)


def test_compiled_memory_counts_what_a_program_holds(harness):
    program, seconds = harness.compile_program(lambda x: x @ x, jnp.ones((64, 64)))
    found = harness.memory_mib(program)
    assert seconds > 0
    assert found["argument"] == found["output"] == 64 * 64 * 4 / 2**20
    assert found["peak"] == found["argument"] + found["output"] + found["temp"]


def test_rows_are_kept_as_they_come_and_become_a_table(harness, tmp_path, capsys):
    folder, ratio = tmp_path / "new" / "results", harness.Spread(0.5, 0.25, 1.5)
    nothing = harness.Spread(math.nan, math.nan, math.nan)
    path = folder / "times.json"

    def rows():
        yield {"who": "ours", "ms": 1234.5678, "ratio": ratio}
        first = json.loads(path.read_text())
        assert first["rows"] == [{"who": "ours", "ms": 1234.5678, "ratio": ratio._asdict()}]
        assert "is_complete" not in first
        yield {"who": "b", "ms": math.nan, "ratio": nothing}

    harness.report("times", rows(), folder)
    _, *table = capsys.readouterr().out.splitlines()
    assert table == [
        "| who | ms | ratio |",
        "|---|---|---|",
        "| ours | 1235 | 0.5 (0.25-1.5) |",
        "| b | - | - |",
    ]
    saved = json.loads(path.read_text())
    assert saved["is_complete"]
    assert saved["rows"][1] == {"who": "b", "ms": None, "ratio": None}
    assert {"processor", "cores", "load_before", "load_after", "versions"} <= set(saved)


COMMANDS = ["compile_for", "image_sets", "league", "train_characters"]


def test_help_is_the_docstring(load, command, refused, capsys):
    runner = load("run")
    files = {name: file for name, (file, _) in runner.BENCHMARKS.items()}
    for name, file in {**files, **{name: name for name in COMMANDS}}.items():
        with pytest.raises(SystemExit) as ended:
            command(name, "--help")
        assert ended.value.code == 0
        assert load(file).__doc__.strip() in capsys.readouterr().out
        assert refused(name, "--no_such_option")


def test_one_command_lists_all_and_refuses_other_names(load, monkeypatch, capsys):
    runner = load("run")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        runner.main()

    run()
    printed = capsys.readouterr().out
    assert all(f"  {name}" in printed for name in (*runner.BENCHMARKS, *runner.FILES))
    with pytest.raises(SystemExit) as ended:
        run("nope")
    assert ended.value.code == 2
    assert "there is no benchmark nope" in capsys.readouterr().err
    reported = []
    monkeypatch.setattr(runner.harness, "report", lambda name, *_: reported.append(name))
    run("--out", "results", "sampler_throughput", "--samplers", "sgld", "svgd")
    assert reported == ["sampler_throughput"]


publish = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "publish.py"))


def test_the_newest_version_is_led_to_and_all_are_listed(tmp_path):
    for name in ("0.9.0", "0.10.0", "1.0.0rc1", "images"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("a site")
    publish["write_lists"](tmp_path)
    assert publish["find_versions"](tmp_path) == ["1.0.0rc1", "0.10.0", "0.9.0"]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
    listed = (tmp_path / "versions.html").read_text()
    assert listed.index(">1.0.0rc1<") < listed.index(">0.10.0<") < listed.index(">0.9.0<")
    assert "images" not in listed
