"""The estimate of the memory that a latent EBM run needs at once."""

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import digits

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.latent import memory as latent_memory
from ebmjax.training import make_mesh

NUM_DEVICES = make_mesh(8).size  # the chains of training are spread over them
PER_STEP = 8 * 16  # bytes of a position and a score


def hidden(weight, z):
    """A generator that must remember, for its gradient, a hidden layer of 1000 floats."""
    return jnp.tanh(weight @ z).sum() * jnp.ones(4)


WEIGHT = jax.ShapeDtypeStruct((1000, 16), jnp.float32)


def smoke(**overrides):
    return digits(**{"eval.num_test": 24} | overrides)


def programs(**overrides):
    config = smoke(**overrides)
    step, reconstructions, evidence = latent_memory.programs(config, hidden, WEIGHT)
    return step.num_bytes, reconstructions.num_bytes, evidence.num_bytes


def test_a_chain_costs_what_the_generator_remembers_of_it():
    """4000 bytes of tanh and 64 of the latent; at most as much again for its cotangent. The
    weight is shared."""
    assert 4000 <= latent_memory.chain_bytes(hidden, WEIGHT, 16) <= 2 * 4064 + 8


@pytest.mark.parametrize(
    ("overrides", "num_latents"),
    [
        ({}, 3 * 72),
        ({"loss.name": "vanilla"}, 72),
        ({"loss.num_intervals": 30, "train.batch_size": 16}, 480),
        ({"loss.chains_per_observation": 4, "train.num_repeats": 5}, 3 * 72 * 4),  # in turns
    ],
)
def test_a_training_step_holds_its_chains_at_all_powers(overrides, num_latents):
    kept = latent_memory.chain_bytes(hidden, WEIGHT, 16)
    assert programs(**overrides)[0] == num_latents * kept / NUM_DEVICES


def test_an_accelerator_remembers_all_repeats(monkeypatch):
    overrides = {"train.num_repeats": 5}
    in_turns, *monitored = programs(**overrides)
    monkeypatch.setattr("ebmjax.training._repeats.jax.default_backend", lambda: "gpu")
    assert programs(**overrides) == (5 * in_turns, *monitored)


def test_chains_that_are_differentiated_keep_their_states():
    """5 steps of the prior's and 7 of the power posteriors', the latter at 3 powers."""
    steps = {"sampler.prior.num_steps": 5, "sampler.posterior.num_steps": 7}
    frozen, *monitored = programs(**steps)
    through, *same = programs(**steps, **{"loss.name": "through_chain"})
    assert through - frozen == 72 * (5 + 3 * 7) * PER_STEP / NUM_DEVICES
    assert same == monitored


def test_monitoring_holds_its_images_at_all_powers_on_one_device():
    """Those of the log evidence one after the other."""
    kept = latent_memory.chain_bytes(hidden, WEIGHT, 16)
    for estimator in ("tempered", "vanilla"):
        _, reconstructions, evidence = programs(
            **{
                "loss.name": estimator,
                "eval.num_test": 17,
                "eval.evidence.num_images": 4,
                "eval.evidence.num_chains": 50,
            }
        )
        assert reconstructions == 3 * 17 * kept
        assert evidence == 3 * 50 * kept


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (
            {"loss.num_intervals": 100, "loss.chains_per_observation": 800},
            r"one training step needs about \d\.\d GiB and the device has 0\.1: "
            r"config\.loss\.num_intervals=100 powers x config\.train\.batch_size=72 images .*x "
            r"config\.loss\.chains_per_observation=800 chains x 1 of config\.train\.num_repeats=1 "
            r"repeats at a time\. Lower one of them, or spread config\.mesh\.num_shards",
        ),
        (
            {"eval.num_test": 20_000},
            r"reconstructing the monitored images needs about .*: config\.loss\.num_intervals=3 "
            r"powers x config\.eval\.num_test=20000 images\. Lower one of them\.$",
        ),
        (
            {"eval.evidence.num_images": 100, "eval.evidence.num_chains": 20_000},
            r"the log evidence of a monitored image needs about .*: "
            r"config\.loss\.num_intervals=3 powers x .*eval\.evidence\.num_chains=20000 chains\.",
        ),
    ],
    ids=["training", "reconstructions", "evidence"],
)
def test_the_largest_program_is_refused_by_the_fields_that_make_it(
    overrides, expected, monkeypatch
):
    monkeypatch.setattr(latent_memory, "available_bytes", lambda: 2**27)
    latent_memory.check_memory(smoke(), hidden, WEIGHT)
    with pytest.raises(ConfigError, match=expected):
        latent_memory.check_memory(smoke(**overrides), hidden, WEIGHT)


def test_the_machine_says_how_much_it_has():
    assert 2**28 < latent_memory.available_bytes() < 2**50
