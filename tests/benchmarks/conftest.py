"""Files of benchmarks/, experiments/ and docs/ by their names, and their commands."""

import importlib
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def load():
    """Imports a file by its name."""
    with pytest.MonkeyPatch.context() as patch:
        for room in ("docs", "experiments", "benchmarks"):
            patch.syspath_prepend(str(REPOSITORY / room))
        yield importlib.import_module


@pytest.fixture
def command(load, monkeypatch, capsys, tmp_path):
    """Runs a command with arguments in a line; returns the lines that it prints."""

    def command(name, arguments):
        runner = load("run")
        monkeypatch.setattr(load("_harness"), "OUT", tmp_path / "runs")
        is_named = name in runner.BENCHMARKS
        monkeypatch.setattr(sys, "argv", [*(["run.py"] * is_named), name, *arguments.split()])
        (runner if is_named else load(name)).main()
        return capsys.readouterr().out.splitlines()

    return command


@pytest.fixture
def refused(command, capsys):
    """Runs a benchmark that ends with exit code 2; returns what it says."""

    def refused(name, arguments):
        with pytest.raises(SystemExit) as ended:
            command(name, arguments)
        assert ended.value.code == 2
        return capsys.readouterr().err

    return refused
