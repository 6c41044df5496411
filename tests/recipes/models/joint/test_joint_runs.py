"""Joint energy models by configuration: families train, variants trace, mistakes are told."""

import importlib
import math

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds
from experiment_runs import assert_keeps_state, launch, rows_of, summary_of
from small_networks import ShallowResNet

from ebmjax import networks
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.parts import image_data, start_distributions

SLOW = pytest.mark.slow


@pytest.fixture
def shallow(monkeypatch):
    """For one test alone: the slow ones train the networks of the papers."""
    monkeypatch.setattr(networks, "WideResNet", ShallowResNet)


def config_of(name, variant="smoke", **overrides):
    config = importlib.import_module(f"experiments.configs.{name}").get_config(variant)
    config.update_from_flattened_dict(overrides)
    return config


def assert_trained(workdir, side, channels):
    rows = rows_of(workdir)
    assert [row["step"] for row in rows] == list(range(1, 9))
    for row in rows:
        assert row["skipped"] == 0
        assert math.isfinite(row["loss"])
        assert row["chain_displacement"] > 0
        assert 0 <= row["accuracy"] <= 1
    assert [row["step"] for row in rows if "test_ece" in row] == [8]
    summary = summary_of(workdir)
    assert {"test_accuracy", "test_ece", "test_nll", "params_sha256"} <= summary.keys()
    last = np.load(workdir / "monitor" / "000008.npz")
    assert last["samples"].shape == (16, side, side, channels)
    assert (workdir / "plots" / "training.png").exists()
    assert (workdir / "plots" / "samples_000008.png").exists()


# test_joint_evaluate.py trains a shallow network by default, and the steps of all are traced below.
@SLOW
@pytest.mark.parametrize("name", ["svgdjem_digits", "sadajem_digits", "jempp_digits"])
def test_a_smoke_run_on_the_digits_trains(name, tmp_path):
    assert launch(config_of(name), f"configs/{name}.py:smoke", str(tmp_path)) is None
    assert_trained(tmp_path, 8, 1)


@SLOW
@pytest.mark.parametrize(
    "name",
    ["sadajem_cifar10", "jem_cifar10", "jempp_cifar10", "svgdjem_cifar10", "sadajem_cifar100"],
)
def test_mock_data_of_the_right_schema_trains(name, tmp_path):
    with tfds.testing.mock_data(num_examples=100):
        assert launch(config_of(name), f"configs/{name}.py:smoke", str(tmp_path)) is None
    assert_trained(tmp_path, 32, 3)


VARIANTS = [
    ("jem_digits", variant) for variant in ("psgld", "mala", "hmc", "softmax", "beta_2")
] + [("svgdjem_digits", variant) for variant in ("stochastic", "literal")]
VARIANTS += [("sadajem_digits", "literal"), ("jempp_digits", "literal")]
NO_BUFFER = ("jem_digits", {"sampler.buffer.size": None})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), [*VARIANTS, NO_BUFFER])
def test_a_variant_makes_a_step_that_keeps_the_state(name, variant, shallow, tmp_path):
    variant, changes = ("", variant) if isinstance(variant, dict) else (variant, {})
    config = config_of(name, variant, **{"sampler.num_steps": 2}, **changes)
    metrics = assert_keeps_state(config, tmp_path)
    assert metrics["loss"].shape == (2,)
    if variant == "softmax":
        assert not any(metric.startswith("chain_") for metric in metrics)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"sampler.buffer.start": "informative", "mesh.num_shards": 8, "sampler.buffer.size": 200},
         "config.sampler.buffer.size must be a multiple of 80, .*num_shards=8 and 10 classes"),
        ({"sampler.buffer.num_kept": 9}, "num_kept must be at most num_samples=8"),
        ({"sampler.num_samples": 9, "mesh.num_shards": 2}, "config.sampler.num_samples must be"),
        ({"sampler.buffer.num_kept": 3, "mesh.num_shards": 2},
         r"config.sampler.buffer.num_kept must be a multiple of 2.*num_shards=2 .*; got 3"),
        ({"sampler.name": "svgd", "model.is_conditional": True}, "=True needs chains that"),
        ({"model.norm": "batch", "sampler.name": "mala"}, "'mala' takes moves back"),
        ({"model.norm": "batch", "sampler.name": "svgd"}, "'svgd' moves particles that interact"),
        ({"train.keep_best": "sample_fid", "loss.generative_weight": 0.0},
         "config.train.keep_best must be one of"),
        ({"optimizer.rho": -0.1}, "config.optimizer.rho must be positive"),
        ({"train.positive_batch_size": 65}, "config.train.positive_batch_size must be at most"),
        ({"data.holdout": 47, "train.positive_batch_size": 20},
         r"positive_batch_size must be at most .* 17 after .*holdout=47"),
        ({"sampler.name": "svgd", "sampler.num_samples": 1},
         "num_samples must be at least 2 for .*svgd"),
        ({"data.num_classes": 5}, r"labels must lie in 0..4; \d+ of 64 do not"),
        ({"data.crop_padding": 8}, "padding must be below"),
        ({"model.depth": 11}, "model.depth must be .* 6 n . 4, got 11"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(overrides, message, shallow, tmp_path):
    config = config_of("jem_digits", **overrides)
    with pytest.raises(ConfigError, match=message):
        launch(config, "configs/jem_digits.py:smoke", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_class_without_images_has_no_component():
    train = image_data.load(config_of("joint", **{"data.max_train": 200}))[0].train
    gap = train._replace(labels=np.where(train.labels == 3, 4, train.labels))
    base, _ = start_distributions.fit_base(gap)
    assert {*np.asarray(base.classes)} == {0, 1, 2, 4, 5, 6, 7, 8, 9}
    assert np.all(np.isfinite(base.draw(jax.random.key(0), 4)))
