"""The benchmark of several devices: each number of them is timed on its share."""

import importlib
import sys
from pathlib import Path

import jax
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def module():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("scaling")


@pytest.mark.parametrize(
    ("available", "batch_size", "expected"),
    [(1, 64, [1]), (2, 64, [1, 2]), (6, 64, [1, 2, 4]), (8, 12, [1, 2, 4]), (8, 7, [1])],
)
def test_devices_come_in_powers_of_two_that_divide_the_batch(
    module, available, batch_size, expected
):
    assert module.device_counts(available, batch_size) == expected


def test_the_ratio_is_of_times_taken_in_turn(module):
    found = {"strong": {1: [4.0, 8.0, 6.0], 2: [2.0, 8.0, 2.0]}, "weak": {1: [1.0], 2: [2.0]}}
    rows = [line.split() for line in module.table(found, 64).splitlines()[1:]]
    assert rows[1] == ["strong", "2", "32", "2000.0", "2.00", "(1.00-3.00)"]
    assert rows[3] == ["weak", "2", "64", "2000.0", "0.50", "(0.50-0.50)"]


@pytest.mark.slow
def test_shards_divide_the_images_of_a_step(module):
    (state, metrics) = module.make_steps(2, 4, num_steps=2, block=3)()
    assert state.step == 3
    assert metrics["loss"].shape == (3,)
    assert state.shards.buffer.positions.shape[:2] == (2, 5_000)
    assert len(state.shards.buffer.positions.sharding.device_set) == 2


@pytest.mark.slow
def test_prints_a_line_for_every_question(module, monkeypatch, capsys):
    devices = jax.devices()[:2]
    monkeypatch.setattr(jax, "devices", lambda: devices)
    arguments = ["--batch", "4", "--steps", "1", "--block", "1", "--timings", "1"]
    monkeypatch.setattr(sys, "argv", ["scaling.py", *arguments])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert " x2 " in lines[0]
    assert [line.split()[:3] for line in lines[2:]] == [
        ["strong", "1", "4"],
        ["strong", "2", "2"],
        ["weak", "1", "4"],
        ["weak", "2", "4"],
    ]
