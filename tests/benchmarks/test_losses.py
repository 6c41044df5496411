"""Losses beside other libraries': what is called a difference, and that every one has a peer."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np


def test_differences_are_relative(load, monkeypatch):
    benchmark = load("losses")
    scale = np.sqrt(np.arange(10.0))
    parts = np.split(np.float32(scale), [1, 3, 6])
    arrays = dict(zip(benchmark.WEIGHTS, parts, strict=True))
    square = lambda weights: sum(jnp.sum(weights[name] ** 2) for name in benchmark.WEIGHTS)  # noqa: E731
    monkeypatch.setattr(benchmark, "our_losses", lambda arrays: {"square, peer": square})
    exact = {"loss": float(np.sum(scale**2)), "gradient": 2 * scale}
    (row,) = benchmark.compare(arrays, {"square, peer": exact})
    assert (row["loss"], row["library"]) == ("square", "peer")
    assert max(row["difference"], row["of gradients"]) < 1e-6
    wrong = {"loss": exact["loss"] / 1.5, "gradient": exact["gradient"][::-1]}
    (row,) = benchmark.compare(arrays, {"square, peer": wrong})
    np.testing.assert_allclose(row["difference"], 0.5, rtol=1e-5)
    far = np.linalg.norm(scale - scale[::-1]) / np.linalg.norm(scale)
    np.testing.assert_allclose(row["of gradients"], far, rtol=1e-5)


def test_every_loss_has_its_peers(load):
    """The other Python's file names the same rows, and needs PyTorch to be imported."""
    benchmark = load("losses")
    theirs = Path(benchmark.__file__).with_name("_torch_losses.py").read_text()
    named = re.findall(r'"([a-z -]+, (?:ebmkit|torchebm))": lambda', theirs)
    assert sorted(named) == sorted(benchmark.our_losses(benchmark.draw_arrays(0)))
