"""Energy matching by hand, and its pairs, where optimal transport is linear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import energy_matching_loss, match_pairs

MAP = np.array([[0.6, 0.2], [0.2, 0.4]])
"""Symmetric and positive: the optimal map from N(0, I) to N(0, MAP^2)."""


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
