"""The benchmark of repeats: each way is timed."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def module():
    """The script, on batches of two images."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        repeats = importlib.import_module("repeats")
        patch.setattr(repeats, "BATCH_SIZE", 2)
        yield repeats


@pytest.mark.slow
def test_prints_every_way(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["repeats.py", "--repeats", "2", "--timings", "1"])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert "2 repeats, median of 1 timings" in lines[0]
    assert [line.split("  ")[0] for line in lines[2:]] == [
        module.TOGETHER,
        module.VMAPPED,
        module.ALONE,
    ]
    assert lines[-1].endswith("1.00")
