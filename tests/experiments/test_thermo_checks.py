"""Latent EBM configurations whose fields do not go together, and the estimate of memory."""

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import digits

from ebmjax.training import make_mesh
from experiments import thermo_checks
from experiments.errors import ConfigError

REFUSED = [
    (
        {"sampler.persistent": True, "sampler.warm_start": True},
        r"config\.sampler\.persistent and config\.sampler\.warm_start exclude each other",
    ),
    (
        {"loss.estimator": "covariance"},
        r"needs at least 2 chains of every image, got config\.loss\.chains_per_observation=1",
    ),
    (
        {"loss.control_variates": True},
        r"is for config\.loss\.estimator='covariance', got config\.loss\.estimator='tempered'",
    ),
    *(
        (
            {
                "loss.estimator": "covariance",
                "loss.control_variates": True,
                "loss.chains_per_observation": num_chains,
            },
            rf"even number of at least 4 .*config\.loss\.chains_per_observation={num_chains}",
        )
        for num_chains in (2, 5)
    ),
    (
        {"loss.estimator": "through_chain", "loss.kl_weight": 0.0, "sampler.persistent": True},
        r"differentiates whole chains and so starts them afresh",
    ),
    (
        {
            "loss.estimator": "through_chain",
            "loss.kl_weight": 0.0,
            "sampler.posterior.name": "mala",
        },
        r"config\.sampler\.posterior\.name='mala' accepts or rejects",
    ),
    (
        {"loss.estimator": "through_chain", "loss.chains_per_observation": 16},
        r"config\.loss\.chains_per_observation=16 cannot carry the full covariance .*dim=16 dim",
    ),
    (
        {"loss.estimator": "through_chain", "loss.kl_covariance": "diagonal"},
        r"config\.loss\.chains_per_observation=1 has no covariance .*kl_weight=0\.0",
    ),
    (
        {"eval.smallest_generated": 40},
        r"config\.eval\.smallest_generated must be from 2 to config\.eval\.num_generated - 1 = 39",
    ),
]


@pytest.mark.parametrize(("overrides", "expected"), REFUSED)
def test_fields_that_exclude_each_other(overrides, expected):
    with pytest.raises(ConfigError, match=expected):
        thermo_checks.check(digits(**overrides), num_test=24)


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"loss.estimator": "covariance", "loss.chains_per_observation": 2},
        {
            "loss.estimator": "covariance",
            "loss.chains_per_observation": 4,
            "loss.control_variates": True,
        },
        {"loss.estimator": "through_chain", "loss.kl_weight": 0.0},
        {"sampler.persistent": True},
        {"eval.num_generated": 0},
    ],
)
def test_what_goes_together_passes(overrides):
    thermo_checks.check(digits(**overrides), num_test=24)


def test_blackjax_is_asked_for_only_where_it_is_used(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    thermo_checks.check(digits(), num_test=24)
    for overrides in (
        {"sampler.prior.name": "hmc"},
        {"eval.evidence_methods": ("ais", "smc")},
    ):
        with pytest.raises(ConfigError, match="needs BlackJAX, which is not installed"):
            thermo_checks.check(digits(**overrides), num_test=24)


def hidden(weight, z):
    """A generator that must remember, for its gradient, a hidden layer of 1000 floats."""
    return jnp.tanh(weight @ z).sum() * jnp.ones(4)


WEIGHT = jax.ShapeDtypeStruct((1000, 16), jnp.float32)


@pytest.mark.parametrize(
    ("overrides", "num_latents"),
    [
        ({}, 3 * 72),
        ({"loss.estimator": "vanilla"}, 72),
        ({"loss.num_intervals": 30, "train.batch_size": 16}, 480),
        ({"loss.chains_per_observation": 4, "train.num_repeats": 5}, 3 * 72 * 4),  # in turns
        ({"loss.chains_per_observation": 4, "loss.control_variates": True}, 3 * 72 * 8),
    ],
)
def test_memory_is_estimated_from_what_the_generator_remembers(overrides, num_latents):
    """By hand: 4000 bytes of tanh and 64 of the latent; at most as much again for its cotangent."""
    config = digits(**overrides)
    # The chains are spread over as many devices as divide the shards.
    num_latents /= make_mesh(config.mesh.num_shards).size
    found = thermo_checks.step_bytes(config, hidden, WEIGHT) / num_latents
    assert 4000 <= found <= 2 * 4064 + 8


def test_an_accelerator_remembers_all_repeats(monkeypatch):
    config = digits(**{"train.num_repeats": 5})
    in_turns = thermo_checks.step_bytes(config, hidden, WEIGHT)
    monkeypatch.setattr("experiments.thermo_checks.jax.default_backend", lambda: "gpu")
    assert thermo_checks.step_bytes(config, hidden, WEIGHT) == 5 * in_turns


def test_a_step_beyond_the_memory_is_refused_with_the_estimate(monkeypatch):
    monkeypatch.setattr(thermo_checks, "available_bytes", lambda: 2**20)
    config = digits(**{"loss.num_intervals": 100, "loss.chains_per_observation": 8})
    with pytest.raises(
        ConfigError, match=r"needs about 0\.\d GiB .*num_intervals=100 powers x .*8"
    ):
        thermo_checks.check_memory(config, hidden, WEIGHT)


def test_the_machine_says_how_much_it_has():
    assert 2**28 < thermo_checks.available_bytes() < 2**50
