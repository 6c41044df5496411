"""Both definitions of learning-gradient variance, against numpy and known signals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.metrics import coordinate_gradient_variance, gradient_variance


def make_gradients(repeats, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "prior": {
            "kernel": rng.normal(1, 2, (repeats, 3, 4)),
            "bias": rng.normal(size=(repeats, 4)),
        },
        "generator": (rng.normal(-3, 0.5, (repeats, 5)), rng.normal(2, 1, repeats)),
    }


def as_matrix(stacked):
    return np.concatenate([g.reshape(len(g), -1) for g in jax.tree.leaves(stacked)], axis=1)


# Sums of 22 numbers of one sign after squaring, and a difference in signal_to_noise whose larger
# term is less than twice the result: 22 + a few eps.
RTOL = 32 * np.finfo(np.float32).eps


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_statistical_variance_is_numpys(wrap):
    stacked = make_gradients(repeats=7)
    matrix = as_matrix(stacked)
    spread = matrix.var(axis=0, ddof=1)
    squared_norm = np.sum(matrix.mean(axis=0) ** 2)
    signal = squared_norm - spread.sum() / 7
    assert squared_norm < 2 * signal  # what RTOL says

    got = wrap(gradient_variance)(stacked)
    np.testing.assert_allclose(got.variance, spread.mean(), rtol=RTOL)
    np.testing.assert_allclose(got.mean_norm, np.sqrt(squared_norm), rtol=RTOL)
    np.testing.assert_allclose(got.signal_to_noise, signal / spread.sum(), rtol=RTOL)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_coordinate_variance_pools_every_coordinate_of_every_leaf(wrap):
    gradients = jax.tree.map(lambda g: g[0], make_gradients(repeats=1))
    flat = np.concatenate([np.ravel(g) for g in jax.tree.leaves(gradients)])
    np.testing.assert_allclose(wrap(coordinate_gradient_variance)(gradients), flat.var(), rtol=RTOL)


def test_repeats_that_agree_have_exactly_no_variance():
    got = gradient_variance(jnp.full((7, 5), 0.1))
    assert got.variance == 0
    assert got.signal_to_noise == jnp.inf
    assert jnp.isnan(gradient_variance(jnp.zeros((7, 5))).signal_to_noise)


def test_half_precision_is_summed_in_float32():
    # In bfloat16 a sum of ones stands still at 256.
    gradients = jnp.stack([jnp.ones(4096), -jnp.ones(4096)]).astype(jnp.bfloat16)
    got = gradient_variance(gradients)
    assert got.variance.dtype == jnp.float32
    assert float(got.variance) == 2
    assert float(coordinate_gradient_variance(gradients)) == 1
    assert float(gradient_variance(jnp.abs(gradients)).mean_norm) == 64


def test_gradients_far_from_zero_keep_their_spread() -> None:
    """In NumPy's float64, whose differences here are exact."""
    near = np.round(100 * np.random.default_rng(0).normal(size=(6, 20)))
    far = near + 1e8
    np.testing.assert_allclose(
        gradient_variance(far).variance, np.mean(np.var(near, axis=0, ddof=1)), rtol=1e-5
    )
    np.testing.assert_allclose(coordinate_gradient_variance(far[0]), np.var(near[0]), rtol=1e-5)
