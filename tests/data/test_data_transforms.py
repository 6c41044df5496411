import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.data import dequantise, from_signed_unit, to_signed_unit

LEVELS = jnp.arange(256, dtype=jnp.uint8)


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit], ids=["eager", "jit"])
def test_levels_map_onto_the_signed_unit_interval(wrap):
    x = np.asarray(wrap(to_signed_unit)(LEVELS))
    assert x.dtype == np.float32
    assert (x.min(), x.max()) == (-1.0, 1.0)
    # Exact integers, then at most two roundings of a number of size <= 1: one float32 epsilon.
    expected = np.arange(256) / 127.5 - 1
    np.testing.assert_allclose(x, expected, rtol=0, atol=np.finfo(np.float32).eps)
    np.testing.assert_array_equal(x, -x[::-1])


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit], ids=["eager", "jit"])
def test_every_level_comes_back(wrap):
    back = wrap(lambda levels: from_signed_unit(to_signed_unit(levels)))(LEVELS)
    assert back.dtype == jnp.uint8
    np.testing.assert_array_equal(back, LEVELS)


def test_the_way_back_rounds_and_clips():
    x = jnp.array([-jnp.inf, -2.0, -1.0 + 0.9 / 255, -1.0 + 1.1 / 255, 1.5, jnp.inf])
    assert from_signed_unit(x).tolist() == [0, 0, 0, 1, 255, 255]


def test_dequantised_levels_are_uniform_in_their_interval():
    num_draws = 4096
    levels = jnp.broadcast_to(LEVELS, (num_draws, 256))
    x = np.asarray(jax.jit(dequantise)(jax.random.key(0), levels), np.float64)
    low = np.arange(256) / 128 - 1
    fraction = (x - low) * 128
    # level + u rounds within [level, level + 1]; subtracting 1 then rounds by at most eps / 4.
    slack = 32 * np.finfo(np.float32).eps
    assert fraction.min() >= -slack
    assert fraction.max() <= 1 + slack
    # Five standard errors of the mean and of the variance (1/12; fourth moment 1/80) of U[0, 1].
    assert abs(fraction.mean() - 0.5) < 5 * np.sqrt(1 / 12 / fraction.size)
    assert abs(fraction.var() - 1 / 12) < 5 * np.sqrt((1 / 80 - 1 / 144) / fraction.size)
    assert abs(np.corrcoef(fraction[:, 0], fraction[:, 1])[0, 1]) < 5 / np.sqrt(num_draws)


@pytest.mark.parametrize(
    "transform", [to_signed_unit, lambda images: dequantise(jax.random.key(0), images)]
)
def test_normalising_twice_is_refused(transform):
    with pytest.raises(TypeError, match=r"images must be uint8 .*float32.*normalised already"):
        jax.jit(transform)(to_signed_unit(LEVELS))
