"""Tests of fit: a Gaussian model of points whose law is known, and a run."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import launch

from ebmjax import data, metrics
from ebmjax.evaluate import Chains
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import fit
from experiments.configs import toy_samplers

TEMPERATURE, BETA, NUM = 0.5, 0.25, 200
VARIANCE = 0.7
"""Variance of the law of the chains, a density tempered by T, in two coordinates."""


class Trained(NamedTuple):
    mean: Any
    beta: Any

    @property
    def scale(self):
        return 1 - self.beta


def points(seed, shift=0.0):
    normal = np.random.default_rng(seed).normal(size=(NUM, 2))
    return (shift + normal * VARIANCE**0.5).astype(np.float32)


@dataclass(frozen=True)
class Gaussian:
    """Points whose chains draw from N(0, VARIANCE), and start 1 to the right."""

    trained: Trained
    train: Any
    box: str = "none"
    high: float = 5.0
    distances: None = None
    num_chain_steps: int = 3
    output_scale: float = 1.0
    programs: dict = field(default_factory=dict)

    @property
    def config(self):
        sampler = SimpleNamespace(box=self.box, low=-4.0, high=self.high)
        return SimpleNamespace(sampler=sampler, evals=SimpleNamespace(batch_size=128))

    def class_log_densities(self, trained, x):
        return -jnp.sum((x - trained.mean) ** 2)[None] * TEMPERATURE / (2 * VARIANCE)

    def fresh_chains(self, key, num, num_steps):
        assert (num, num_steps) == (NUM, 3)
        return Chains(points(2, 1.0), points(1), np.zeros(num, np.int32))

    def program(self, name, make):
        return make()

    def about(self):
        return {"implied_temperature": TEMPERATURE}


def find(mean=0.0, **changes):
    train, held_out = (data.ImageData(points(seed), np.zeros(NUM, np.int32)) for seed in (0, 3))
    model = Gaussian(Trained(jnp.float32(mean), jnp.float32(BETA)), train, **changes)
    fit.check(model, held_out, num_samples=NUM)
    return fit.fit(jax.random.key(0), model, held_out, num_samples=NUM)


@pytest.mark.slow
def test_a_model_that_fits_and_its_starts_that_do_not():
    found = find()
    report = found.report["fit"]
    p_values = {
        (name, place): one["p_value"]
        for name in ("ksd", "mmd", "c2st")
        for place, one in report[name].items()
    }
    for (_, place), p_value in p_values.items():
        assert (p_value < 0.01) == (place == "starts"), p_values
    assert {place for name, place in p_values if name == "ksd"} == {
        "held_out",
        "samples",
        "starts",
        "train",
    }
    assert len(p_values) == 4 + 3 + 3


def test_a_wrong_density_with_good_samples():
    report = find(mean=0.7).report["fit"]
    assert report["ksd"]["held_out"]["p_value"] < 0.01
    assert report["mmd"]["samples"]["p_value"] > 0.01


def test_chains_in_a_box_are_tested_against_a_density_that_ends_there():
    model, points_ = find(box="clamp").report["fit"], points(3)
    x, scores = jnp.asarray(points_), -jnp.asarray(points_) / VARIANCE
    boxed = metrics.kernel_stein_discrepancy(jax.random.key(0), x, scores, box=(-4.0, 5.0))
    assert model["ksd"]["held_out"]["statistic"] == pytest.approx(float(boxed.statistic), rel=1e-3)
    assert model["notes"] == []


def test_a_set_that_leaves_the_box_has_no_stein_discrepancy(tmp_path):
    found = find(box="reflect", high=float(points(3).max()) - 0.1)
    report = found.report["fit"]
    assert "held_out" not in report["ksd"]
    assert "ksd leaves out held_out: 1 of 400 numbers are outside" in " ".join(report["notes"])
    assert "mmd" in report


def test_too_few_samples_are_refused():
    few = data.ImageData(points(3)[:3], np.zeros(3, np.int32))
    model = Gaussian(Trained(0.0, 0.0), few)
    with pytest.raises(ConfigError, match=r"config\.evals\.fit needs at least 4 .* got 3"):
        fit.check(model, few, num_samples=500)


@pytest.mark.slow
def test_a_run_of_points(tmp_path):
    config = toy_samplers.get_config("smoke")
    times = {"evals.fit.every": "end", "evals.comparison.every": "never"}
    config.update_from_flattened_dict(times)
    assert launch(config, "configs/toy_samplers.py:smoke", str(tmp_path / "run"), "all") is None
    report = json.loads((tmp_path / "run" / "evaluation.json").read_text())["fit"]
    assert report["num_samples"] == config.evals.fit.num_samples
    assert set(report["ksd"]) == {"held_out", "samples", "starts", "train"}
