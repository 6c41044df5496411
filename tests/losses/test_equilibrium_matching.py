"""Equilibrium matching of one data point, and a value by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import equilibrium_matching_loss


def test_one_data_point_is_the_only_place_of_rest():
    """The mean of the target given x_t, by x_t's own law: it is (mu - x_t) times a positive number.

    At t the noise of x_t = z is (z - t mu) / (1 - t), so the target is c(t) (mu - z) / (1 - t), and
    t has the density N(noise) / (1 - t) given z. The gradient by s(z) vanishes there.
    """
    mu, time = 0.3, (np.arange(4000) + 0.5) / 4000
    for z in (-1.0, 0.3, 0.8):
        noise = (z - time * mu) / (1 - time)
        weights = np.exp(-0.5 * noise**2) / (1 - time)
        displacement = (mu - noise)[:, None]
        best = np.sum(weights * np.minimum(4.0, 20 * (1 - time)) * (mu - noise)) / weights.sum()
        assert abs(best) < 1e-12 if z == mu else best * (mu - z) > 0

        def error(s, each, t):
            return equilibrium_matching_loss(s.reshape(1, 1), each[None], t[None])[0]

        slopes = jax.vmap(jax.grad(error), (None, 0, 0))(best, displacement, time)
        # Sums of 4,000 terms of at most 2 * 4 * |target|, each off by one rounding.
        np.testing.assert_allclose(np.average(slopes, weights=weights), 0.0, atol=1e-4)


def test_value_and_gradient_by_hand():
    """c is 4 at 0.5, 3 at 0.85, and 0 at the data."""
    score, displacement = jnp.array([[1.0, 0.0], [3.0, 2.0], [1.0, 0.0]]), jnp.ones((3, 2))
    loss_fn = jax.jit(jax.value_and_grad(equilibrium_matching_loss, has_aux=True))
    (loss, metrics), gradient = loss_fn(score, displacement, jnp.array([0.5, 0.85, 1.0]))
    np.testing.assert_allclose(loss, (9 + 16 + 0 + 1 + 1 + 0) / 6, rtol=1e-6)
    np.testing.assert_allclose(gradient * 3, [[-3, -4], [0, -1], [1, 0]], atol=1e-5)
    np.testing.assert_allclose(metrics["transport_error"], np.sqrt(27 / 6), rtol=1e-6)


def test_a_time_short_is_refused():
    with pytest.raises(ValueError, match="time must have shape"):
        equilibrium_matching_loss(jnp.ones((3, 2)), jnp.ones((3, 2)), jnp.ones(2))
