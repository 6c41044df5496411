"""Directions whose filters have the parameters' norms, and landscapes with known values."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.metrics import energy_landscape, filter_normalised_direction

EPS = np.finfo(np.float32).eps
both = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])


class Network(nn.Module):
    @nn.compact
    def __call__(self, images):
        x = nn.relu(nn.LayerNorm()(nn.Conv(4, (3, 3))(images)))
        return nn.Dense(2)(jnp.mean(x, axis=(1, 2)))


@pytest.fixture(scope="module")
def params():
    params = Network().init(jax.random.key(0), jnp.zeros((1, 4, 4, 3)))["params"]
    # No leaf at an initial value of 0 or 1, no two filters of one norm.
    return jax.tree.map(lambda w: 0.3 + np.asarray(w) * np.arange(1, w.shape[-1] + 1), params)


def kernels(tree):
    return {"conv": tree["Conv_0"]["kernel"], "dense": tree["Dense_0"]["kernel"]}


def filter_by_filter(kernel):
    """One row a filter, in float64."""
    return np.stack([np.ravel(kernel[..., i]).astype(np.float64) for i in range(kernel.shape[-1])])


@both
def test_every_filter_has_the_norm_of_its_own(wrap, params):
    direction = wrap(filter_normalised_direction)(jax.random.key(1), params)
    assert jax.tree.structure(direction) == jax.tree.structure(params)
    assert kernels(params)["conv"].shape == (3, 3, 3, 4)
    for name, kernel in kernels(direction).items():
        weights = kernels(params)[name]
        expected = np.linalg.norm(filter_by_filter(weights), axis=1)
        assert len(set(expected)) == weights.shape[-1]
        # Two sums of at most 27 squares and a root of each, a quotient and a product.
        np.testing.assert_allclose(
            np.linalg.norm(filter_by_filter(kernel), axis=1), expected, rtol=32 * EPS, err_msg=name
        )


def test_biases_and_normalisations_stay(params):
    direction = filter_normalised_direction(jax.random.key(1), params)
    vectors = [d for d in jax.tree.leaves(direction) if d.ndim <= 1]
    assert len(vectors) == 4  # two biases, a scale and an offset
    assert not any(np.any(v) for v in vectors)
    assert all(np.all(w != 0) for w in jax.tree.leaves(params) if w.ndim <= 1)


def test_a_direction_that_is_drawn_small_has_the_parameters_norm_too():
    """The drawn norm of a filter of one weight is below 1 for about two of three keys."""
    keys, params = jax.random.split(jax.random.key(0), 16), {"kernel": jnp.full((1, 1), 3.0)}
    drawn = jax.vmap(filter_normalised_direction, (0, None))(keys, params)
    np.testing.assert_allclose(np.abs(drawn["kernel"]), 3.0, rtol=8 * EPS)


def test_directions_are_uniform_on_the_sphere_of_each_filter():
    num_keys, d = 2000, 6
    weights = {"a": jnp.full((3, 2, 2), 2.0), "b": jnp.full((6, 2), 2.0)}
    keys = jax.random.split(jax.random.key(2), num_keys)
    drawn = jax.vmap(filter_normalised_direction, in_axes=(0, None))(keys, weights)
    units = np.concatenate([v.reshape(num_keys, d, 2) for v in drawn.values()], axis=2)
    units = units / np.sqrt(d * 4.0)
    # A coordinate of a uniform unit vector: mean 0, variance 1/d; its square: variance as below.
    np.testing.assert_allclose(units.mean(axis=0), 0, atol=5 * np.sqrt(1 / d / num_keys))
    spread = np.sqrt(2 * (d - 1) / (d**2 * (d + 2)))
    np.testing.assert_allclose((units**2).mean(axis=0), 1 / d, atol=5 * spread / np.sqrt(num_keys))
    # No two filters, of one leaf or two, share their draws: products have variance 1/d^2.
    for i, j in [(0, 1), (0, 2), (1, 3)]:
        products = (units[..., i] * units[..., j]).mean(axis=0)
        np.testing.assert_allclose(products, 0, atol=5 / d / np.sqrt(num_keys))


@both
def test_filters_of_zeros_get_no_direction(wrap):
    weights = {"kernel": jnp.array([[3.0, 0.0], [4.0, 0.0]])}
    direction = wrap(filter_normalised_direction)(jax.random.key(0), weights)["kernel"]
    np.testing.assert_array_equal(direction[:, 1], 0.0)
    np.testing.assert_allclose(np.linalg.norm(direction[:, 0]), 5.0, rtol=8 * EPS)


CENTRE = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.array(0.25)}
ALONG_X = {"w": jnp.array([[1.0, 0.0], [2.0, 0.0]]), "b": jnp.array(1.0)}
ALONG_Y = {"w": jnp.array([[0.0, -1.0], [0.0, 0.5]]), "b": jnp.array(2.0)}
X, Y = jnp.array([-1.0, 0.0, 0.5, 2.0]), jnp.array([0.0, 0.25, -3.0])


def skewed(params):
    """Neither symmetric in the two directions nor in their signs."""
    return jnp.sum(params["w"] ** 3) + 10 * params["b"] * params["w"][0, 0]


@both
def test_landscape_is_the_value_at_every_point(wrap):
    def landscape(*grid):
        return energy_landscape(skewed, CENTRE, ALONG_X, ALONG_Y, *grid)

    got = wrap(landscape)(X, Y)
    a, b = np.meshgrid(X, Y)  # rows along y
    w = [(1 + a), (-2 - b), (0.5 + 2 * a), (3 + 0.5 * b)]
    expected = sum(v**3 for v in w) + 10 * (0.25 + a + 2 * b) * (1 + a)
    assert got.shape == (3, 4)
    # Every number is a small multiple of 1/8 and its cube below 2^10: float32 is nearly exact.
    np.testing.assert_allclose(got, expected, atol=8 * EPS * 256)
    assert got[0, 1] == skewed(CENTRE)
