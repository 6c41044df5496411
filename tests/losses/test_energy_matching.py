"""Energy matching between Gaussians, where optimal transport is linear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import energy_matching_loss, match_pairs

MAP = np.array([[0.6, 0.2], [0.2, 0.4]])
"""Symmetric and positive: the optimal map from N(0, I) to N(0, MAP^2)."""


def best_slope(linear_map):
    """Returns K of the best potential with -grad V = K x.

    Along a direction that the map scales by a, the displacement is (a - 1) x_0, and x_t = c x_0
    with c = 1 - t + t a. So K = (a - 1) E[c] / E[c^2].
    """
    a, vectors = np.linalg.eigh(linear_map)
    slopes = (a - 1) * (1 + a) / 2 / ((1 + a + a**2) / 3)
    return vectors @ np.diag(slopes) @ vectors.T


def test_the_best_quadratic_potential_is_the_closed_form():
    """The loss is quadratic in K, so one Newton step from 0 is its minimum.

    It sees second moments and is quadratic in t: points at +-sqrt(2) standard deviations, and two
    nodes of Gauss, have these exactly.
    """
    noise = np.sqrt(2) * np.concatenate([np.eye(2), -np.eye(2)])
    nodes = 0.5 + 0.5 * np.array([-1, 1]) / np.sqrt(3)
    displacement = np.tile(noise @ (MAP - np.eye(2)), (2, 1))
    between = np.tile(noise, (2, 1)) + np.repeat(nodes, 4)[:, None] * displacement

    def loss(flat):
        return energy_matching_loss(between @ flat.reshape(2, 2), jnp.asarray(displacement))[0]

    newton = jax.jit(lambda x: -jnp.linalg.solve(jax.hessian(loss)(x), jax.grad(loss)(x)))
    found = newton(jnp.zeros(4))
    np.testing.assert_allclose(found.reshape(2, 2), best_slope(MAP), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("num", "group"), [(7, 7), (64, 64), (100, 50), (67, 67)])
def test_pairs_are_those_of_the_optimal_map(num, group):
    """A gradient of a convex function pairs optimally, in any group of its pairs."""
    rng = np.random.default_rng(num)
    noise = rng.normal(size=(num, 2)).astype(np.float32)
    ends = noise @ MAP.astype(np.float32) + 3
    orders = [first + rng.permutation(group) for first in range(0, num, group)]
    shape = (num, 1, 2)
    matched = jax.jit(match_pairs)(
        noise.reshape(shape), ends[np.concatenate(orders)].reshape(shape)
    )
    np.testing.assert_array_equal(matched, ends.reshape(shape))


def test_value_gradient_and_weights():
    score, displacement = jnp.array([[1.0, 2.0], [0.0, 3.0]]), jnp.array([[1.0, 0.0], [1.0, 1.0]])
    loss_fn = jax.value_and_grad(energy_matching_loss, has_aux=True)
    (loss, metrics), gradient = loss_fn(score, displacement, weights=jnp.array([1.0, 0.5]))
    np.testing.assert_allclose(loss, (4 / 2 + 0.5 * 5 / 2) / 2)
    np.testing.assert_allclose(gradient, [[0.0, 1.0], [-0.25, 0.5]])
    np.testing.assert_allclose(metrics["transport_error"], np.sqrt(9 / 4))
