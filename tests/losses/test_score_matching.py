"""Score matching on Gaussian data, where its minimum is known, exact and in slices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import score_matching_loss

SIGNS = np.array([[1.0, 1.0], [1.0, -1.0]])  # a Hadamard basis: its mean is the whole trace


def points():
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.normal(size=(500, 2)) @ np.array([[1.0, 0.4], [0.0, 0.5]]), jnp.float32)


def loss_of(precision, x, directions=None):
    """The loss of E = x' P x / 2, by exact divergence or by the mean of directions' slices."""

    def score_fn(x):
        return -0.5 * x @ (precision + precision.T)

    score, basis = score_fn(x), np.eye(2) if directions is None else directions
    slices = []
    for v in np.asarray(basis, np.float32):
        v = jnp.broadcast_to(v, x.shape)
        slices.append(jnp.sum(v * jax.jvp(score_fn, (x,), (v,))[1], axis=1))
    divergence = sum(slices) if directions is None else sum(slices) / len(slices)
    return score_matching_loss(score, divergence)[0]


@pytest.mark.parametrize("directions", [None, SIGNS], ids=["exact", "sliced"])
def test_the_minimum_is_the_inverse_of_the_data_s_second_moment(directions):
    """The loss is quadratic in P, so one step of Newton's method finds its minimum."""
    x = points()
    start = jnp.eye(2)
    found = jax.jit(
        lambda p: (jax.grad(loss_of)(p, x, directions), jax.hessian(loss_of)(p, x, directions))
    )(start)
    gradient, hessian = found[0].ravel(), found[1].reshape(4, 4)
    # P and its transpose have the same loss: the pseudo-inverse takes the symmetric one.
    best = start.ravel() - np.linalg.pinv(np.asarray(hessian, np.float64)) @ np.asarray(gradient)
    second_moment = np.asarray(x, np.float64).T @ np.asarray(x, np.float64) / len(x)
    np.testing.assert_allclose(best.reshape(2, 2), np.linalg.inv(second_moment), rtol=1e-5)


def test_value_and_metrics_by_hand():
    score, divergence = jnp.array([[3.0, 4.0], [0.0, 0.0]]), jnp.array([-1.0, -2.0])
    loss, metrics = score_matching_loss(score, divergence)
    assert float(loss) == (12.5 - 1.0 - 2.0) / 2
    assert float(metrics["score_norm"]) == pytest.approx(np.sqrt(12.5))
    assert float(metrics["divergence"]) == -1.5
