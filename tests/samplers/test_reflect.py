"""Mirrors on the walls of a box: where a move ends, and derivatives by the walls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.samplers import reflect, sgld

SLOPE = 3.0


def tilted(x):
    """exp(3 x), which presses chains against the upper wall."""
    return SLOPE * jnp.sum(x)


def curved(x):
    return -0.5 * jnp.sum((x - 2.0) ** 2)


@pytest.mark.parametrize(
    ("drift", "expected"),
    [(0.3, 0.7), (0.5, 0.9), (0.9, 0.7), (1.9, 0.3), (2.1, 0.5), (-0.9, 0.5), (-2.9, 0.5)],
)
def test_a_move_ends_where_a_ray_of_light_would(drift, expected):
    """From 0.4 in [0, 1], without noise, over up to three walls."""
    sampler = reflect(sgld, 0.0, 1.0)(lambda x: drift * x, step_size=1.0, noise_scale=0.0)
    state, _ = sampler.step(jax.random.key(0), sampler.init(jnp.float32(0.4)))
    np.testing.assert_allclose(state.position, expected, rtol=1e-5)
    np.testing.assert_allclose(state.score, drift, rtol=1e-6)
    np.testing.assert_allclose(state.log_density, drift * state.position, rtol=1e-5)


def test_positions_that_are_not_finite_stay_so():
    state = reflect(sgld, 0.0, 1.0)(tilted, step_size=0.1).init(jnp.array([jnp.nan, jnp.inf, 0.5]))
    np.testing.assert_array_equal(np.isnan(state.position), [True, True, False])


@pytest.mark.parametrize(
    ("start", "place", "slopes"),
    [
        (0.2, 0.2, (0.0, 0.0)),
        (0.7, 0.3, (0.0, 2.0)),  # 2 high - x
        (-0.7, -0.3, (2.0, 0.0)),  # 2 low - x
        (1.7, -0.3, (2.0, -2.0)),  # x - 2 (high - low)
    ],
)
def test_walls_may_be_traced_and_differentiated(start, place, slopes):
    @jax.checkpoint
    def end(low, high):
        sampler = reflect(sgld, low, high)(curved, step_size=1e-30, noise_scale=0.0)
        state = sampler.init(jnp.full(1, start))
        return sampler.step(jax.random.key(0), state)[0].position[0]

    value, found = jax.jit(jax.value_and_grad(end, (0, 1)))(jnp.array(-0.5), jnp.array(0.5))
    # Numbers of order one, a handful of float32 operations each.
    np.testing.assert_allclose([value, *found], [place, *slopes], atol=1e-6)
