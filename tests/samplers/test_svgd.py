"""SVGD: its direction by explicit loops, its degenerate particles, its oracles."""

from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.spatial.distance import pdist

from ebmjax import samplers

FLOAT32 = float(np.finfo(np.float32).eps)


def log_density(x):
    """Skewed, and coupled between coordinates."""
    return jnp.sum(1.5 * x - jnp.exp(x)) - 0.2 * jnp.sum(x) ** 2


compiled_direction = jax.jit(
    partial(samplers.svgd_direction, log_density_fn=log_density), static_argnames="bandwidth"
)
compiled_step = jax.jit(partial(samplers.svgd(log_density, step_size=0.3).step, jax.random.key(0)))


def score(x):
    return 1.5 - np.exp(x) - 0.4 * np.sum(x)


def median_rule(x):
    return float(np.median(pdist(x)) / np.sqrt(2 * np.log(len(x))))


BANDWIDTHS = {None: median_rule, "median": lambda x: float(np.median(pdist(x))), 0.6: lambda _: 0.6}


def by_double_loop(x, bandwidth):
    direction = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            kernel = np.exp(-np.sum((x[j] - x[i]) ** 2) / (2 * bandwidth**2))
            kernel_gradient = -kernel * (x[j] - x[i]) / bandwidth**2
            direction[i] += (kernel * score(x[j]) + kernel_gradient) / len(x)
    return direction


@pytest.mark.parametrize(("num_particles", "dimension"), [(2, 1), (3, 2), (7, 5), (20, 1)])
@pytest.mark.parametrize("given", BANDWIDTHS)
def test_direction_by_double_loop(num_particles, dimension, given):
    x = np.random.default_rng(dimension).normal(size=(num_particles, dimension))
    bandwidth = BANDWIDTHS[given](x)
    expected = by_double_loop(x, bandwidth)
    with jax.enable_x64(True):
        direction = compiled_direction(jnp.asarray(x), bandwidth=given)
        np.testing.assert_allclose(direction, expected, atol=1e-12)
    single = compiled_direction(jnp.asarray(x, jnp.float32), bandwidth=given)
    # The Gram matrix rounds squared distances by ~10 eps |x|^2, the kernel by that over 2 h^2.
    largest = np.sum(x**2, axis=1).max()
    atol = 20 * FLOAT32 * (1 + largest / bandwidth**2) * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(single, expected, atol=atol)


def test_a_pytree_is_its_flattened_rows():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 5)), jnp.float32)
    tree = {"a": x[:, 0], "b": x[:, 1:].reshape(6, 2, 2)}

    def log_density_of_tree(particle):
        return log_density(jnp.concatenate([particle["a"][None], particle["b"].ravel()]))

    direction = jax.jit(lambda tree: samplers.svgd_direction(tree, log_density_of_tree))(tree)
    expected = compiled_direction(x)
    np.testing.assert_allclose(direction["a"], expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(direction["b"].reshape(6, 4), expected[:, 1:], atol=1e-6)


def test_info():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(5, 2)), jnp.float32)
    state, info = compiled_step(samplers.svgd_init(x, log_density))
    direction = compiled_direction(x)
    np.testing.assert_allclose(state.particles, x + 0.3 * direction, rtol=1e-5)
    np.testing.assert_allclose(info.bandwidth, median_rule(np.asarray(x, np.float64)), rtol=1e-5)
    norms = np.linalg.norm(direction, axis=1)
    np.testing.assert_allclose(info.direction_norm, np.sqrt(np.mean(norms**2)), rtol=1e-5)
    np.testing.assert_allclose(info.log_density, jax.vmap(log_density)(x), rtol=1e-6)


@jax.jit
def bandwidth_and_direction(x, offset):
    def around_offset(particle):
        return log_density(particle - offset)

    _, info = samplers.svgd_step(
        jax.random.key(0), samplers.svgd_init(x, around_offset), around_offset, step_size=1.0
    )
    return info.bandwidth, samplers.svgd_direction(x, around_offset)


@pytest.mark.parametrize("dimension", [1, 2, 10, 100])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("num_same", [2, 9])
def test_some_particles_coincide(dimension, offset, num_same):
    """Rounding leaves coincident particles no distance, also where they are most of all and the
    median distance is zero. (Distances by norms summed apart from the Gram matrix fail here.)"""
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(10, dimension)) + offset
        x[:num_same] = x[0]
        x = np.random.default_rng(seed).permutation(x).astype(np.float32)
        exact = x.astype(np.float64) - offset
        distances = pdist(exact)
        bandwidth = median_rule(exact) or np.sqrt(np.mean(distances**2) / (2 * np.log(10)))
        used, direction = bandwidth_and_direction(x, offset)
        np.testing.assert_allclose(used, bandwidth, rtol=1e-4)
        expected = by_double_loop(exact, bandwidth)
        largest = np.sum((exact - exact.mean(axis=0)) ** 2, axis=1).max()
        atol = 50 * FLOAT32 * (1 + largest / bandwidth**2) * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(direction, expected, atol=atol)


def test_blackjax_takes_the_same_step():
    """BlackJAX's kernel is exp(-d^2 / length_scale): length_scale = 2 bandwidth^2."""
    x = jnp.asarray(np.random.default_rng(2).normal(size=(8, 3)), jnp.float32)
    bandwidth, step_size = 0.7, 0.2
    theirs = blackjax.svgd(
        jax.grad(log_density), optax.sgd(step_size), update_kernel_parameters=lambda state: state
    )
    state = theirs.init(x, {"length_scale": 2 * bandwidth**2})
    expected = jax.jit(theirs.step)(state).particles
    ours = samplers.svgd(log_density, step_size=step_size, bandwidth=bandwidth)
    state, _ = jax.jit(ours.step)(jax.random.key(0), ours.init(x))
    np.testing.assert_allclose(state.particles, expected, rtol=2e-5, atol=2e-6)


def test_a_drive_weighs_the_scores_alone():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), jnp.float32)
    driven = samplers.svgd(log_density, step_size=0.3, drive=0.25)
    tempered = samplers.svgd(lambda x: 0.25 * log_density(x), step_size=0.3)
    (state, _), (other, _) = (s.step(jax.random.key(0), s.init(x)) for s in (driven, tempered))
    np.testing.assert_allclose(state.particles, other.particles, rtol=1e-5)
