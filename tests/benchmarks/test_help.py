"""``--help`` of every benchmark says what it does, and measures nothing."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_help_is_the_docstring(name, load, refused, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        load(name).main()
    assert ended.value.code == 0
    assert load(name).__doc__.strip() in capsys.readouterr().out
    assert refused(name, "--no_such_option")


def test_one_command_lists_all_and_runs_one_by_name(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        runpy.run_path(str(FOLDER), run_name="__main__")

    run()
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in NAMES)
    with pytest.raises(SystemExit) as ended:
        run("repeats", "--help")
    assert ended.value.code == 0
    assert "Repeats of a small training run" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        run("nope")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: there is no benchmark nope")
