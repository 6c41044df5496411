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


def test_in_a_box_it_is_the_double_loop_with_a_factor_that_vanishes_on_the_faces():
    x, s = make_positions()
    bandwidth = median_distance(x)
    low, high = 1.0, 10.0

    def h(z):
        return 4 * (z - low) * (high - z) / (high - low) ** 2

    def u(a, b):
        total = 0.0
        for i in range(3):

            def g(x, y, i=i):
                return h(x[i]) * kernel(x, y, bandwidth) * h(y[i])

            def once(x, y, i=i, g=g):
                return s[a, i] * g(x, y) + jax.grad(g, 0)(x, y)[i]

            total += s[b, i] * once(x[a], x[b]) + jax.grad(once, 1)(x[a], x[b])[i]
        return total

    pairs = jnp.array(list(itertools.permutations(range(len(x)), 2)))
    want = jnp.mean(jax.jit(jax.vmap(u))(pairs[:, 0], pairs[:, 1]))
    found = kernel_stein_discrepancy(jax.random.key(0), x, s, box=(low, high))
    image = x.reshape(6, 3, 1), s.reshape(6, 3, 1)
    assert kernel_stein_discrepancy(jax.random.key(0), *image, box=(low, high)) == found
    assert found.statistic == pytest.approx(float(want), abs=2e-5)


BOX, NUM_SEEDS = (-1.0, 0.5), 400


def share_rejected(precision, box, level=0.05, num_seeds=50, num=100, true_precision=None):
    """Draws exactly from a Gaussian (precision 0: the uniform law) in [-1, 0.5]^2, and tests it."""
    true_precision = precision if true_precision is None else true_precision

    def one(key):
        width = true_precision**0.5
        if width:
            x = jax.random.truncated_normal(key, width * BOX[0], width * BOX[1], (num, 2)) / width
        else:
            x = jax.random.uniform(key, (num, 2), minval=BOX[0], maxval=BOX[1])
        return kernel_stein_discrepancy(key, x, -precision * x, box=box, num_bootstrap=199).p_value

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(8), num_seeds))
    return np.mean(np.asarray(found)[:, None] <= np.asarray(level), axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.0, 1.0])
def test_level_in_a_box(precision):
    level = np.array([0.05, 0.2, 0.5])
    rejected = share_rejected(precision, BOX, level, NUM_SEEDS, 50)
    assert (np.abs(rejected - level) < 5 * np.sqrt(level * (1 - level) / NUM_SEEDS)).all(), rejected


@pytest.mark.slow
def test_power_in_a_box_and_what_happens_without_it():
    for precision in (0.0, 1.0):
        assert share_rejected(precision, None) > 0.9
        assert share_rejected(precision, BOX, true_precision=8.0) > 0.9


def test_positions_on_a_face_are_seen():
    """Clamped draws have the right law inside and a share of draws on the faces."""
    x = jnp.clip(jax.random.normal(jax.random.key(0), (100, 2)), *BOX)
    found = kernel_stein_discrepancy(jax.random.key(1), x, -x, box=BOX)
    assert found.p_value < 0.01


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
