"""``--help`` of every benchmark says what it does, and measures nothing."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_help_is_the_docstring(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert module.__doc__.strip() in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--no_such_option"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
