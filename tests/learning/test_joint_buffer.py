"""The replay buffer of a joint step: what is drawn, moved and kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from joint_problems import (
    EPS,
    NUM_CLASSES,
    batch,
    buffer_rows,
    class_start,
    joint_objective,
    logits_by_hand,
    make_gradient_fn,
    negatives,
    quadratic,
    quadratic_params,
    shard_of,
)

KEY = jax.random.key(4)


def step(draw, *, objective=None, buffer_size=24, num_steps=1):
    """Buffers as rows, before and after each of some steps of the quadratic model."""
    carry = shard_of(quadratic(), draw, buffer_size=buffer_size)
    gradient_fn = jax.jit(make_gradient_fn(quadratic(), draw, objective))
    buffers = [buffer_rows(carry)]
    for i in range(num_steps):
        key = jax.random.fold_in(KEY, i)
        carry = gradient_fn(key, quadratic_params(), carry, batch())[1]
        buffers.append(buffer_rows(carry))
    return buffers


def changed(before, after):
    return np.flatnonzero(np.any(before != after, axis=1))


@pytest.mark.slow
def test_the_buffer_keeps_as_many_as_asked_by_the_policy():
    start, ends = step(negatives(), buffer_size=8)
    by_density = ends[np.argsort(log_density(ends))]
    kept = {}
    for replacement in ("argmax", "softmax", "in_place"):
        draw = negatives(replacement=replacement, num_kept=3)
        before, after = step(draw, buffer_size=8)
        np.testing.assert_array_equal(before, start)
        slots = changed(before, after)
        kept[replacement] = set(map(tuple, after[slots]))
        assert len(slots) == len(kept[replacement]) == 3
        assert kept[replacement] <= set(map(tuple, ends))  # the policy moves no chain
        if replacement == "in_place":
            np.testing.assert_array_equal(after[slots], ends[slots])
    assert kept["argmax"] == set(map(tuple, by_density[-3:]))
    assert kept["softmax"] != kept["argmax"]


def log_density(x):
    return np.log(np.exp(logits_by_hand(quadratic_params(), x)).sum(axis=1))


def test_without_a_buffer_every_chain_starts_anew():
    """Chains at rest return the law's draws, here one start a class."""
    draw = negatives(num_classes=NUM_CLASSES, start_fn=class_start)
    carry = shard_of(quadratic(), draw, buffer_size=0)
    seen = []

    def loss(positive, negative, smoothing):
        jax.debug.callback(seen.append, negative)
        return jnp.mean(negative - jnp.mean(positive)) / smoothing, {}

    objective = joint_objective(generative_loss=loss, density_scale=0.0)
    gradient_fn = jax.jit(make_gradient_fn(quadratic(), draw, objective))
    _, after, _ = gradient_fn(KEY, quadratic_params(), carry, batch())
    jax.effects_barrier()
    assert after.buffer == ()
    starts = np.stack([np.ravel(class_start(None, label)) for label in range(NUM_CLASSES)])
    distances = np.abs(np.asarray(seen[0])[:, None] - log_density(starts))
    assert np.all(distances.min(axis=1) < 50 * EPS)
    assert len(set(distances.argmin(axis=1).tolist())) > 1
