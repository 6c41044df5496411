"""The comparison of samplers on points with a known energy: its numbers and report."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.comparison import SETTINGS, check, choose, find_references
from ebmjax.recipes.evaluators.density import truth_on_grid
from ebmjax.recipes.evaluators.evaluations import make_evaluators
from experiments.configs.toy_samplers import get_config

MEANS = np.array([[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0], [0.0, -10.0]])


def logits(params, statistics, x):
    return -0.02 * jnp.sum(x**2, axis=-1, keepdims=True)


@pytest.fixture
def compared(tmp_path):
    """Returns a function: the evaluator, and a model of energy x^2 / 50 of a smoke run."""

    def make(num_samples=40, **fields):
        config = get_config("smoke")
        config.evals.comparison.update(fields)
        config.evals.density.num_samples = num_samples
        built = build_experiment(config, tmp_path)
        model = replace(built.use(built.state), logits_fn=logits, programs={})
        return make_evaluators(config)["comparison"][0], model

    return make


@pytest.mark.slow
def test_locked_chains_follow_the_density_in_their_modes(compared):
    _, model = compared(num_steps=220, num_samples=100)
    truth = truth_on_grid(model)
    judge, references = find_references(jax.random.key(0), model, truth + 3.0, 1.5 * MEANS, 200)
    locked = references["locked"]
    assert locked["inside"] == pytest.approx(0.989, abs=0.02)  # within 3 deviations
    # 100 draws against 100, of a mean distance of 12: E D^2 = 2 / 100 * 12; four times that.
    assert locked["distance_to_data"] < math.sqrt(4 * 2 / 100 * 12)
    assert locked["distance_to_model"] < math.sqrt(4 * 2 / 100 * 12)
    assert locked["rhat_classic"] > 5
    assert judge(np.full((4, 200, 2), 10.0))["inside"] == 0


@pytest.mark.slow
def test_every_sampler_runs_in_every_setting(compared):
    samplers = ("gradient_descent", "mala")
    one, model = compared(samplers=samplers, num_steps=30)
    report = one(jax.random.key(0), model, None).report
    assert list(report) == ["references", *SETTINGS]
    for setting in SETTINGS:
        assert tuple(report[setting]) == samplers
        for numbers in report[setting].values():
            assert numbers["ess_per_second"] == numbers["ess"] / numbers["seconds"]
            assert 0 <= numbers["inside"] <= 1
        assert 0 <= report[setting]["mala"]["acceptance_prob"] <= 1
    assert choose("gradient_descent", "thesis").options == {"step_size": 0.01}
    assert choose("gradient_descent", "tuned").options == {"step_size": 0.5}


@pytest.mark.slow
def test_a_density_without_end_is_compared_with_nothing(compared):
    one, model = compared(samplers=("sgld",), num_steps=30)
    slope = replace(model, logits_fn=lambda params, statistics, x: jnp.sum(x, axis=-1)[..., None])
    report = one(jax.random.key(0), slope, None).report
    assert report["references"] == {}
    assert math.isnan(report["tuned"]["sgld"]["distance_to_model"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def make(density, step_size): pass", "missing 1 required positional .* 'step_size'"),
        ("def make(density, step_size=1.0): pass", "must return a sampler"),
    ],
)
def test_a_function_that_makes_no_sampler_is_refused_before_training(
    compared, text, expected, tmp_path, monkeypatch
):
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=expected):
        check(compared()[1], None, samplers=("mine.py:make",))
