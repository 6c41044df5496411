"""The benchmark of repeats: each way is timed."""

import pytest


@pytest.mark.slow
def test_prints_every_way(load, command, monkeypatch):
    module = load("repeats")
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    head, *lines = command("repeats", "--repeats 2 --timings 1")
    assert "2 repeats, median of 1 timings" in head
    assert [line.split("  ")[0] for line in lines[2:]] == [
        module.TOGETHER,
        module.VMAPPED,
        module.ALONE,
    ]
    assert lines[-1].endswith("1.000 (1.000-1.000)")
