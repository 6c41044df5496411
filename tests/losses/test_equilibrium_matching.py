"""Equilibrium matching against closed forms: one data point, Gaussian data, and a value by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import equilibrium_matching_loss

# Two nodes of Gauss in each fifth of [0, 1]: exact for cubics on either side of a = 0.8.
TIMES = (np.arange(5)[:, None] / 5 + 0.1 + 0.1 * np.array([-1, 1]) / np.sqrt(3)).ravel()


def paths(data, noise):
    """x_t, x - noise and t of every pair at every node, (N, 1)."""
    x, eps, time = (part.ravel() for part in np.meshgrid(data, noise, TIMES))
    return (time * x + (1 - time) * eps)[:, None], (x - eps)[:, None], time


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


def test_gaussian_data_have_the_closed_form_s_slope():
    """Data and noise at +-1 standard deviations have exact second moments, and these times, too.

    For data N(0, 4) the best s = k x has k = (4 E[c t] - E[c (1 - t)]) / E[4 t^2 + (1 - t)^2].
    """
    between, displacement, time = paths([-2.0, 2.0], [-1.0, 1.0])
    mean_c, mean_ct = 4 * 0.8 + 4 * 0.1, 4 * 0.32 + 20 * (0.5 - 1 / 3 - 0.32 + 0.8**3 / 3)
    best = (4 * mean_ct - (mean_c - mean_ct)) / (5 / 3)

    def loss(k):
        return equilibrium_matching_loss(k * between, displacement, time)[0]

    newton = -jax.grad(loss)(0.0) / jax.grad(jax.grad(loss))(0.0)
    np.testing.assert_allclose(newton, best, rtol=1e-5)


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
