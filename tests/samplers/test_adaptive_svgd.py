"""Adaptive SVGD: its rule by hand, where it stands still, its shards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.samplers import adaptive_svgd

BANDWIDTH = 0.8
MEAN, PRECISION = np.array([1.5, -0.5]), np.array([[2.0, 0.6], [0.6, 1.0]])


def log_density(x):
    """A Gaussian."""
    gap = x - jnp.asarray(MEAN, x.dtype)
    return -0.5 * gap @ jnp.asarray(PRECISION, x.dtype) @ gap


def direction_by_hand(x):
    gaps = x[:, None] - x[None]
    kernel = np.exp(-np.sum(gaps**2, axis=2) / (2 * BANDWIDTH**2))
    scores = -(x - MEAN) @ PRECISION
    repulsion = np.sum(kernel[:, :, None] * gaps / BANDWIDTH**2, axis=1)
    return (kernel @ scores + repulsion) / len(x)


def test_steps_by_hand():
    step_size, decay, damping = 0.2, 0.7, 0.05
    x = np.random.default_rng(0).normal(size=(5, 2))
    with jax.enable_x64(True):
        sampler = adaptive_svgd(
            log_density, step_size=step_size, decay=decay, damping=damping, bandwidth=BANDWIDTH
        )
        state, step = sampler.init(jnp.asarray(x)), jax.jit(sampler.step)
        moment = direction_by_hand(x) ** 2
        for i in range(4):
            direction = direction_by_hand(x)
            moment = decay * moment + (1 - decay) * direction**2
            x = x + step_size * direction / (damping + np.sqrt(moment))
            state, info = step(jax.random.key(i), state)
            np.testing.assert_allclose(state.particles, x, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(state.second_moment, moment, rtol=1e-11, atol=1e-13)
            assert state.step == i + 1
            norm = np.sqrt(np.mean(np.sum(direction**2, axis=1)))
            assert info.direction_norm == pytest.approx(norm, rel=1e-12)


def test_particles_without_a_direction_stand_still_whatever_came_before():
    sampler = adaptive_svgd(lambda x: 0.0 * jnp.sum(x), step_size=0.3)
    state = sampler.init(jnp.ones((4, 3)))  # in one place, on a plain
    for moment in (0.0, 1e-12, 2.0):
        earlier = state._replace(
            second_moment=jnp.full((4, 3), moment, jnp.float32), step=jnp.int32(7)
        )
        after, _ = jax.jit(sampler.step)(jax.random.key(0), earlier)
        np.testing.assert_array_equal(after.particles, state.particles)
        np.testing.assert_allclose(after.second_moment, 0.9 * moment, rtol=1e-6)


def test_shards_step_as_one_system():
    options = {"step_size": 0.2, "damping": 0.1, "bandwidth": BANDWIDTH}
    with jax.enable_x64(True):
        particles = jax.random.normal(jax.random.key(0), (6, 2), jnp.float64)
        whole = adaptive_svgd(log_density, **options)
        part = adaptive_svgd(log_density, axis_name="shard", **options)
        step = jax.jit(jax.vmap(part.step, axis_name="shard"))
        expected, got = whole.init(particles), jax.vmap(part.init)(particles.reshape(3, 2, 2))
        for keys in jax.random.split(jax.random.key(1), (3, 3)):
            expected, _ = jax.jit(whole.step)(keys[0], expected)
            got, _ = step(keys, got)
        found = got.particles.reshape(6, 2)
        np.testing.assert_allclose(found, expected.particles, rtol=1e-11, atol=1e-11)
