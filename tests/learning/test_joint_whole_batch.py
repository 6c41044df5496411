"""Eight logical shards that share their batch have the step of one, up to rounding."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from joint_problems import (
    ATOL,
    DIM,
    NUM_CLASSES,
    SHAPE,
    assert_trees_close,
    image_data,
    joint_objective,
    make_gradient_fn,
    negatives,
    quadratic,
)
from training_problems import split_batch

from ebmjax.data import ImageData
from ebmjax.learning import Carry
from ebmjax.losses import beta_objective_loss
from ebmjax.networks import SADA_JEM_POLICY, Network
from ebmjax.samplers import ReplayBuffer, Sampler

NUM, WIDTH = 16, 5
DAMPING = 0.25


def normalised_logits(params, statistics, images, *, use="running", batch_axis=None):
    """Two layers; the hidden one is normalised by its batch or its running moments."""
    hidden = images.reshape(*images.shape[:-3], DIM) @ params["in"]
    moments, new = statistics["moments"], statistics
    if use == "batch":
        rows = hidden.reshape(-1, WIDTH)
        moments = jnp.stack([jnp.mean(rows, axis=0), jnp.mean(rows**2, axis=0)])
        if batch_axis is not None:
            moments = jax.lax.pmean(moments, batch_axis)
        new = {"moments": 0.1 * statistics["moments"] + 0.9 * moments}
    mean, square = moments.reshape(2, *(1,) * (hidden.ndim - 1), WIDTH)
    hidden = (hidden - mean) * jax.lax.rsqrt(square - mean**2 + DAMPING)
    return 3.0 * jnp.tanh(hidden) @ params["out"], new


def normalised():
    rng = np.random.default_rng(3)
    params = {
        "in": jnp.asarray(rng.normal(size=(DIM, WIDTH)), jnp.float32),
        "out": jnp.asarray(rng.normal(size=(WIDTH, NUM_CLASSES)), jnp.float32),
    }
    statistics = {"moments": jnp.stack([jnp.zeros(WIDTH), jnp.ones(WIDTH)])}
    return Network(lambda key, images: (params, statistics), normalised_logits)


def weighted_loss(positive, negative, smoothing):
    """Three weightings of the negatives, none of them linear in a shard's part of the batch."""
    found = [
        beta_objective_loss(positive / smoothing, negative / smoothing, beta=0.6, variant=variant)
        for variant in ("default", "batch_corrected", "true_objective")
    ]
    return sum((i + 1) * loss for i, (loss, _) in enumerate(found)), found[0][1]


class Position(NamedTuple):
    position: jax.Array


def still(density):
    """Chains that stay where they start, for models whose chains no batch couples."""
    del density
    return Sampler(Position, lambda key, state: (state, None))


CASES = {
    "sam_and_batch_norm": (normalised, {"rho": 0.5}, {"norm_policy": SADA_JEM_POLICY}),
    "classifier": (normalised, {"rho": 0.5, "loss": None}, {}),
    "weights": (quadratic, {"generative_loss": weighted_loss}, {}),
}
STARTS = np.random.default_rng(5).uniform(-1.0, 1.0, (NUM, *SHAPE)).astype(np.float32)


def problem(num_shards, case, batch_axis):
    """(gradient_fn, params, shards); chains without noise from all that the buffers hold."""
    make, fields, options = CASES[case]
    network = make()
    draw = None
    if case != "classifier":
        moves = {} if make is normalised else {"sampler": still, "num_steps": 1}
        draw = negatives(num_samples=NUM // num_shards, **moves)
    objective = joint_objective(**fields, batch_axis=batch_axis)
    gradient_fn = make_gradient_fn(network, draw, objective, **options)
    params, statistics = network.init(None, None)
    buffer = ReplayBuffer(STARTS.reshape(num_shards, -1, *SHAPE)) if draw else ()
    repeated = jax.tree.map(
        lambda leaf: jnp.stack([leaf] * num_shards), (statistics, 1.0, jnp.int32(0))
    )
    return gradient_fn, params, Carry(buffer, *repeated, adaptation={})


def steps(case, *laws):
    """(mean gradients, mean metrics, shards afterwards) for each (num_shards, batch_axis)."""
    data = image_data(num=2 * NUM)
    streams = tuple(ImageData(*(leaf[half::2] for leaf in data)) for half in (0, 1))
    problems = [problem(num_shards, case, batch_axis) for num_shards, batch_axis in laws]
    keys = [jax.random.split(jax.random.key(6), num_shards) for num_shards, _ in laws]
    starts = [(params, shards) for _, params, shards in problems]

    def one(gradient_fn, key, params, shards, batch):
        mapped = jax.vmap(gradient_fn, (0, None, 0, 0), axis_name="shard")
        gradients, shards, metrics = mapped(key, params, shards, batch)
        mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), (gradients, metrics))
        return *mean, shards

    @jax.jit
    def all_laws(keys, starts, streams):
        batches = [split_batch(streams, len(key)) for key in keys]
        given = zip(problems, keys, starts, batches, strict=True)
        return [one(p[0], key, *start, batch) for p, key, start, batch in given]

    return all_laws(keys, starts, streams)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_eight_shards_of_one_batch_have_the_gradient_of_one(case):
    whole, single, apart = steps(case, (8, "shard"), (1, "shard"), (8, None))
    gradients, metrics, shards = whole
    expected, expected_metrics, one = single
    assert_trees_close(gradients, expected)
    assert_trees_close(metrics, expected_metrics)
    assert_trees_close(
        *(jax.tree.map(lambda leaf: leaf.reshape(NUM, -1), s.buffer) for s in (shards, one))
    )
    same_on_all = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * 8), one)
    assert_trees_close(shards.statistics, same_on_all.statistics)
    # The other law, in which each shard's batch is a batch of its own.
    assert optax.tree.norm(optax.tree.sub(apart[0], expected)) > 100 * ATOL
