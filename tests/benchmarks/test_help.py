"""``--help`` of every benchmark says what it does, and measures nothing."""

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
