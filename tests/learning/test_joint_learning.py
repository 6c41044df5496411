"""Joint energy models learn what they should, and the literal SVGD objective does not."""

import functools
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from joint_problems import DIM, SHAPE, joint_objective, negatives, quadratic, trainable
from training_problems import ListWriter

from ebmjax.data import ImageData
from ebmjax.samplers import mala
from ebmjax.training import Plan, fit, make_train_step

KEY = jax.random.key(7)
SIGMA, SEPARATION = 0.2, 0.8


def blobs(num, seed):
    """Two Gaussian blobs of standard deviation 0.2 whose centres are 0.8 apart."""
    rng = np.random.default_rng(seed)
    labels = np.arange(num, dtype=np.int32) % 2
    centres = (labels[:, None] - 0.5) * SEPARATION * np.full(DIM, DIM**-0.5)
    x = centres + SIGMA * rng.normal(size=(num, DIM))
    images = np.clip(np.round((x + 1) * 127.5), 0, 255).astype(np.uint8)
    return ImageData(images.reshape(num, *SHAPE), labels)


def two_gaussians():
    """Two wide classes, nearly alike."""
    mean = 0.05 * jax.random.normal(jax.random.key(3), (2, DIM))
    return {"mean": mean, "log_precision": jnp.zeros(2), "bias": jnp.zeros(2)}


def train_on_blobs(draw, objective, optimizer, *, total_steps, batch_size):
    state, gradient_fn = trainable(
        quadratic(),
        draw,
        objective,
        optimizer,
        num_shards=1,
        buffer_size=2 * draw.num_samples,
        params=two_gaussians(),
    )
    train_step = make_train_step(gradient_fn, optimizer)
    sizes = (batch_size, batch_size)
    plan = Plan(total_steps=total_steps, batch_size=sizes, steps_per_dispatch=total_steps)
    writer = ListWriter()
    result = fit(KEY, state, train_step, blobs(512, 0), plan, writers=[writer])
    assert int(result.state.skipped) == 0
    return result, {name: np.array([row[name] for _, row in writer.rows]) for name in result.row}


@pytest.mark.slow
def test_it_learns_two_blobs_and_their_density():
    def wide_start(key, label):
        del label
        return 1.5 * jax.random.normal(key, SHAPE)

    draw = negatives(
        sampler=functools.partial(mala, step_size=0.02),
        num_steps=10,
        num_samples=64,
        start_fn=wide_start,
    )
    result, columns = train_on_blobs(
        draw, joint_objective(), optax.adam(0.05), total_steps=400, batch_size=64
    )
    # The best classifier's accuracy is Phi(SEPARATION / (2 SIGMA)) = 0.977; one that is off by a
    # cosine of 0.9 reaches 0.964 of new images, give or take 5 standard errors.
    test = blobs(1000, 1)
    images = jnp.asarray(test.images / 127.5 - 1.0, jnp.float32)
    logits = quadratic().apply(result.state.params, {}, images)[0]
    accuracy = np.mean(np.argmax(logits, axis=1) == test.labels)
    bound = NormalDist().cdf(0.9 * SEPARATION / (2 * SIGMA))
    assert accuracy > bound - 5 * np.sqrt(bound * (1 - bound) / 1000)

    # Chains and data alike in law have energies alike. An energy of DIM squares has the variance
    # DIM / 2, its mean over 64 data and 64 chains a standard error of 0.25, and the mean of that
    # over 50 steps one of 0.035: ten moves of MALA forget half the way to the mean each time.
    error = np.sqrt(2 * DIM / 2 / 64)
    gap = columns["energy_gap"]
    assert np.all(gap[:5] > 5 * error)
    assert abs(gap[-50:].mean()) < 5 * error / np.sqrt(50)
    # The model has found the spread of the data, of 512 * DIM numbers.
    learned = float(jnp.mean(result.state.params["log_precision"]))
    np.testing.assert_allclose(learned, -2 * np.log(SIGMA), atol=5 * np.sqrt(2 / (512 * DIM)))
