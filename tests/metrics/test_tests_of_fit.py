"""Tests of fit: statistics against loops and automatic derivatives, levels and powers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.metrics import kernel_stein_discrepancy


def kernel(x, y, h):
    return (1 + jnp.sum((x - y) ** 2) / h**2) ** -0.5


def median_distance(x):
    pairs = itertools.combinations(np.asarray(x, np.float64), 2)
    return float(np.median([np.linalg.norm(a - b) for a, b in pairs]))


def make_positions(num=6, dimension=3):
    key_x, key_s = jax.random.split(jax.random.key(3))
    return jax.random.normal(key_x, (num, dimension)) + 5.0, jax.random.normal(
        key_s, (num, dimension)
    )


def test_it_is_the_double_loop_of_automatic_derivatives():
    x, s = make_positions()
    bandwidth = median_distance(x)

    def k(x, y):
        return kernel(x, y, bandwidth)

    def u(a, b):
        mixed = jnp.trace(jax.jacfwd(jax.grad(k, 0), 1)(x[a], x[b]))
        slopes = s[a] @ jax.grad(k, 1)(x[a], x[b]) + s[b] @ jax.grad(k, 0)(x[a], x[b])
        return s[a] @ s[b] * k(x[a], x[b]) + slopes + mixed

    pairs = jnp.array(list(itertools.permutations(range(len(x)), 2)))
    want = jnp.mean(jax.jit(jax.vmap(u))(pairs[:, 0], pairs[:, 1]))
    found = kernel_stein_discrepancy(jax.random.key(0), x, s)
    assert found.statistic == pytest.approx(float(want), abs=2e-5)


def p_values(shift, num_seeds=1000, num=50):
    def one(key):
        x = jax.random.normal(key, (num, 2)) + shift
        return kernel_stein_discrepancy(key, x, -x, num_bootstrap=199).p_value

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), num_seeds)))


@pytest.mark.slow
def test_level_and_power():
    for level in (0.05, 0.5):
        rejected = np.mean(p_values(0.0) <= level)
        assert abs(rejected - level) < 5 * np.sqrt(level * (1 - level) / 1000)
    assert np.mean(p_values(0.5) <= 0.05) > 0.9


def test_scores_that_are_not_finite_inside_jit_have_no_p_value():
    x, s = make_positions()
    found = jax.jit(kernel_stein_discrepancy)(jax.random.key(0), x, s.at[0].set(jnp.inf))
    assert np.isnan(found.p_value)
