"""Refusals of configurations: they name the field, and nothing is written."""

import re

import pytest
from experiment_runs import digits, launch

from ebmjax.recipes.config.errors import ConfigError

# Numbers of intervals and exponents whose powers underflow near 0, or round to 1.
INDISTINCT = [(10, 38.0), (30, 30.0), (10, 1e-7)]


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """The message with which a run of the smoke configuration, changed, is refused."""
    monkeypatch.chdir(tmp_path)

    def refused(error=ConfigError, **overrides):
        with pytest.raises(error) as caught:
            launch(digits(**overrides), "configs/thermo_digits.py:smoke", "run")
        message = str(caught.value)
        assert "\n" not in message
        assert not (tmp_path / "run").exists()
        assert not (tmp_path / "runs").exists()
        return message

    return refused


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"train.batch_size": 152}, r"config\.train\.batch_size must be at most .* got 152 with"),
        ({"mesh.num_shards": 7}, r"config\.train\.batch_size must be a multiple of"),
        (
            {"evals.evidence.num_chains": 47},
            r"config\.evals\.evidence\.num_chains=47 are too few .*config\.model\.latent_dim=16 .*"
            r"--config\.evals\.evidence\.num_chains=48 .*evidence\.divergences=False",
        ),
        (
            {"data.holdout": 140},
            r"config\.data\.holdout=140 leaves 4 of 144 training images .*at least config\."
            r"train\.batch_size=72\.",
        ),
        ({"train.num_epochs": 2**31 - 1}, r"config\.train\.num_epochs=2147483647 makes more"),
        ({"data.max_test": 20, "evals.num_test": 24}, r"config\.evals\.num_test must be at most"),
        ({"evals.evidence.num_images": 25}, r"config\.evals\.evidence\.num_images must be at most"),
        *(
            (
                {"loss.num_intervals": num_intervals, "loss.exponent": exponent},
                rf"config\.loss\.num_intervals={num_intervals} and config\.loss\.exponent="
                rf"{exponent} make powers that coincide .* Take an exponent nearer to 1, or fewer",
            )
            for num_intervals, exponent in INDISTINCT
        ),
        ({"loss.pilot_intervals": 40, "loss.exponent": 25.0, "loss.schedule": "adaptive"},
         r"config\.loss\.pilot_intervals=40 and config\.loss\.exponent=25\.0 make powers"),
        ({"data.name": "cifar11"}, r"config\.data\.name='cifar11', split train: "),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_fields_that_do_not_fit_each_other_are_named(overrides, expected, refused):
    assert re.search(expected, refused(**overrides))
