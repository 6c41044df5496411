"""The benchmark of several devices: each number of them is timed on its share."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def module(load):
    return load("scaling")


@pytest.mark.parametrize(
    ("available", "batch_size", "expected"),
    [(1, 64, [1]), (2, 64, [1, 2]), (6, 64, [1, 2, 4]), (8, 12, [1, 2, 4]), (8, 7, [1])],
)
def test_devices_come_in_powers_of_two_that_divide_the_batch(
    module, available, batch_size, expected
):
    assert module.device_counts(available, batch_size) == expected


def test_a_ratio_is_one_device_over_several_in_the_same_turn(module, monkeypatch):
    times = {"1": [4.0, 8.0, 6.0], "2": [2.0, 8.0, 2.0]}
    monkeypatch.setattr(module, "make_steps", lambda *_: None)
    monkeypatch.setattr(module.harness, "time_in_turn", lambda calls, repeats: times)
    options = SimpleNamespace(batch=64, steps=1, block=2, timings=3)
    strong, weak = (module.measure(question, [1, 2], options)[1] for question in ("strong", "weak"))
    assert strong == {
        "question": "strong",
        "devices": 2,
        "images each": 32,
        "ms a step": 1000.0,
        "ratio": (2.0, 1.0, 3.0),
    }
    assert weak["images each"] == 64


@pytest.mark.slow
def test_shards_divide_the_images_of_a_step(module):
    (state, metrics) = module.make_steps(2, 4, num_steps=2, block=3)()
    assert state.step == 3
    assert metrics["loss"].shape == (3,)
    assert state.shards.buffer.positions.shape[:2] == (2, 5_000)
    assert len(state.shards.buffer.positions.sharding.device_set) == 2
