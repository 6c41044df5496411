"""Every learning gradient that a latent EBM's configuration can ask for, traced through the step.

Nothing is compiled: the shapes tell that the parts fit, and that a field changes the program tells
that it arrives there.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment, digits

from ebmjax.recipes.models.latent import parts
from ebmjax.training import make_mesh
from ebmjax.training._sharding import describe_batches
from ebmjax.training._step import make_block

EXCHANGE = {"sampler.exchange_every": 2}
PERSISTENT = {"sampler.persistent": True}
THROUGH = {"loss.name": "through_chain"}
WITH_DIVERGENCES = THROUGH | {
    "loss.kl_weight": 1.0,
    "loss.chains_per_observation": 4,
}
COVARIANCE = {"loss.name": "covariance", "loss.chains_per_observation": 4}


def hashable(overrides):
    return tuple(sorted(overrides.items()))


@functools.cache
def traced(items):
    """(the block's program as text, its state before, its state after, its metrics)."""
    config = digits(**dict(items))
    experiment = build_experiment(config, Path("nowhere"))
    plan = experiment.plan
    carry = plan.batch_size // plan.num_shards
    indices = jax.ShapeDtypeStruct((1, plan.num_shards, carry), jnp.int32)
    mesh = make_mesh(plan.num_shards, jax.devices()[:1])
    batches = describe_batches(experiment.data, indices, mesh)
    program, (state, metrics) = jax.make_jaxpr(
        make_block(experiment.train_step, mesh), return_shape=True
    )(jax.random.key(0), experiment.state, batches, experiment.numbers)
    return str(program), experiment.state, state, metrics


def shapes(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "change"),
    [
        ({}, {"loss.name": "vanilla"}),
        ({}, {"loss.name": "telescoped"}),
        ({}, {"loss.name": "frozen_prior"}),
        ({}, COVARIANCE),
        ({}, THROUGH),
        (THROUGH, WITH_DIVERGENCES),
        ({}, {"sampler.warm_start": True}),
        ({}, PERSISTENT),
        (COVARIANCE, PERSISTENT),
        (PERSISTENT, {"sampler.reinit_prob": 0.5}),
        (EXCHANGE, {"sampler.exchange_every": 1}),
        (EXCHANGE | PERSISTENT, {"sampler.place_powers": True}),
        ({}, {"sampler.posterior.start": "components"}),
        ({}, {"model.generator": "dense", "model.prior": "univariate"}),
        ({}, {"optimizer.average_decay": 0.9}),
        ({}, {"sampler.prior.name": "hmc"}),
        ({}, {"sampler.name": "psgld"}),
        ({}, {"sampler.posterior.name": "mala"}),
    ],
    ids=lambda overrides: ",".join(map(str, overrides.values())) or "tempered",
)
def test_a_field_of_the_gradient_changes_the_step_and_the_step_fits(base, change):
    before, *_ = traced(hashable(base))
    after, start, end, metrics = traced(hashable(base | change))
    assert after != before
    assert shapes(end) == shapes(start)
    overrides = base | change
    num_powers = 1 if overrides.get("loss.name") == "vanilla" else 4
    assert metrics["mean_log_likelihoods"].shape == (1, num_powers)
    assert metrics["loss"].shape == metrics["prior_energy"].shape == (1,)
    assert metrics["posterior_acceptance"].shape == (1, max(num_powers - 1, 1))


def test_the_penalty_reaches_the_loss(monkeypatch):
    """It is an argument of the program, so the program's text does not show it."""
    monkeypatch.setattr(parts.latent, "tempered_loss", lambda **options: options)
    monkeypatch.setattr(parts, "make_latent_gradient_fn", lambda *_, loss_fn, **__: loss_fn)
    loss_fn = parts.gradient_fn(digits(**{"loss.energy_l2": 0.1}), None, None, None)
    assert loss_fn() == {"energy_l2": np.float32(0.1)}


def test_persistent_chains_stand_at_every_power_of_every_example():
    _, state, *_ = traced(hashable(COVARIANCE | PERSISTENT))
    assert state.carry.prior.shape == (8, 72 // 8 * 4, 16)
    assert state.carry.posterior.shape == (8, 144, 3, 4, 16)


def test_persistent_chains_of_an_image_start_at_its_components():
    """On each of 8 shards the same, for every power and chain, of mean 0 and about variance 1."""
    _, state, *_ = traced(hashable(PERSISTENT | {"sampler.posterior.start": "components"}))
    found = np.asarray(state.carry.posterior)
    np.testing.assert_array_equal(found, np.broadcast_to(found[:1, :, :1, :1], found.shape))
    images = found[0, :, 0, 0]
    np.testing.assert_allclose(images.mean(0), 0.0, atol=1e-4)
    # The jitter, 0.03^2, is at most 1 % of the variance along each of 16 of the 64 directions.
    np.testing.assert_allclose(images.var(0), 1.0, atol=0.01)
