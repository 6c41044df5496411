"""Shards of an image energy that share their batch have the step of one, up to rounding."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from image_problem import KEY, PARAMS, batch, image_gradient_fn, live, live_loss, negatives
from joint_problems import ATOL, SHAPE, assert_trees_close
from training_problems import settled, split_batch

from ebmjax._dual_averaging import dual_averaging_init, dual_averaging_update
from ebmjax.learning import (
    ChainKind,
    init_carry,
)
from ebmjax.losses import beta_objective_loss, nearest_neighbour_entropy
from ebmjax.samplers import ReplayBuffer, Sampler

NUM_SHARDS, NUM = 4, 16


class Report(NamedTuple):
    acceptance_prob: jax.Array


def to_constant(constant, density, *, step_size):
    """Moves every chain to where its kind goes; accepts by where it comes from."""
    del density
    accepted = lambda x: Report(jnp.clip(0.5 + 0.4 * x.position.ravel()[0], 0, 1))  # noqa: E731
    state = lambda x, key=None: Position(x)  # noqa: E731
    return Sampler(
        state, lambda key, x: (state(x.position * 0 + constant * step_size), accepted(x))
    )


class Position(NamedTuple):
    position: jax.Array


def robust_loss(positive, negative, beta):
    loss, metrics = beta_objective_loss(-positive, -negative, beta=0.6)
    return loss + 0 * beta, metrics


def run(num_shards, batch_axis, draw, loss_fn, num_slots, **options):
    """(mean gradients, mean metrics, shards before, shards after)."""
    gradient_fn = image_gradient_fn(draw, loss_fn, batch_axis=batch_axis, **options)
    positions = np.random.default_rng(5).uniform(-1.0, 1.0, (num_slots, *SHAPE))
    before = init_carry(KEY, draw, num_shards=num_shards)._replace(
        buffer=ReplayBuffer(jnp.asarray(positions, jnp.float32).reshape(num_shards, -1, *SHAPE))
    )
    mapped = jax.jit(jax.vmap(settled(gradient_fn), (0, None, 0, 0), axis_name="shard"))
    keys = jax.random.split(KEY, num_shards)
    gradients, after, metrics = mapped(keys, PARAMS, before, split_batch(batch(NUM), num_shards))
    return *jax.tree.map(lambda leaf: leaf.mean(0), (gradients, metrics)), before, after


@pytest.mark.slow
def test_the_weights_and_the_step_sizes_are_those_of_the_whole_batch():
    kinds = {
        name: ChainKind(sampler=partial(to_constant, constant), num_steps=2, target_acceptance=0.5)
        for name, constant in {"near": 0.3, "far": 0.9}.items()
    }

    def step(num_shards, batch_axis):
        draw = negatives(num_classes=1, kinds=kinds, num_samples=NUM // num_shards)
        return run(num_shards, batch_axis, draw, robust_loss, NUM)

    gradients, metrics, _, after = step(NUM_SHARDS, "shard")
    expected, expected_metrics, *_ = step(1, "shard")
    by_shard, *_, apart = step(NUM_SHARDS, None)
    assert_trees_close(gradients, expected)
    for name in ("loss", "effective_sample_fraction"):
        assert float(metrics[name]) == pytest.approx(float(expected_metrics[name]), abs=ATOL)
    # Which chains a kind moves is drawn, so its acceptance is not that of the single shard.
    acceptance = metrics["chain_near_acceptance_prob"]
    adapted = dual_averaging_update(dual_averaging_init(1.0), acceptance, step_size=1.0, target=0.5)
    everywhere = jax.tree.map(lambda leaf: jnp.stack([leaf] * NUM_SHARDS), adapted)
    # A step of dual averaging weighs its error by 20 / 11.
    assert_trees_close(after.adaptation["near"], everywhere, 2 * ATOL)
    # The other law, in which each shard's batch is a batch of its own.
    assert optax.tree.norm(optax.tree.sub(by_shard, expected)) > 100 * ATOL
    assert np.ptp(apart.adaptation["near"].mean_error) > 100 * ATOL


@pytest.mark.slow
def test_live_chains_keep_from_the_references_of_all_shards():
    draw = negatives(num_classes=1, num_samples=NUM // NUM_SHARDS)
    options = {"live": live(num_references=2)}
    _, metrics, before, after = run(
        NUM_SHARDS, "shard", draw, live_loss, NUM + 2 * NUM_SHARDS, **options
    )
    old, new = (np.asarray(s.buffer.positions).reshape(-1, *SHAPE) for s in (before, after))
    is_moved = np.any(old != new, axis=(1, 2, 3))
    assert np.sum(is_moved) == NUM
    expected = nearest_neighbour_entropy(new[is_moved], old[~is_moved])
    np.testing.assert_allclose(metrics["live_entropy"], expected, rtol=0, atol=4 * ATOL)
