"""Files of benchmarks/ by their names, and their commands."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def load():
    """Imports a file of benchmarks/ by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module


@pytest.fixture
def command(load, monkeypatch, capsys):
    """Runs a benchmark with arguments in a line; returns the lines that it prints."""

    def command(name, arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments.split()])
        load(name).main()
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
