"""The benchmark of repeats: each way is timed, and all of them take the same step."""

import importlib
import sys
from pathlib import Path

import jax
import numpy as np
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


def test_the_ways_take_the_same_step(module):
    """Losses of order 100 are sums of some 1,000 terms in float32, after chains that contract:
    1e-4 of them is twenty roundings a term."""
    train_step, first_state = module.make_step()
    keys = jax.random.split(jax.random.key(0), 2)
    images = jax.random.uniform(jax.random.key(1), (1, 2, 2, *module.IMAGE_SHAPE))
    stacked = module.training.stack_states([first_state(key) for key in keys])
    joined = [jax.jit(module.training.repeat_step(train_step)), jax.jit(module.vmapped(train_step))]
    (_, first), (_, second) = (step(keys, stacked, images) for step in joined)
    assert first["loss"].shape == (2,)
    for name in ("loss", "gradient_norm"):
        np.testing.assert_allclose(first[name], second[name], rtol=1e-4)
