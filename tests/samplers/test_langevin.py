"""SGLD against its exact law at the step size it really runs with, and without noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_moments, run_replicas, stationary_moments

from ebmjax import densities
from ebmjax.samplers import gradient_descent, sgld

REPLICAS = 20_000
GRID = np.linspace(-12.0, 4.0, 1201)


def test_gradient_descent_is_langevin_without_noise():
    target = densities.log_gamma(jnp.array([0.7, 2.0]))
    position = jnp.array([0.5, -1.0])
    descent = gradient_descent(target.log_density_fn, step_size=0.2)
    silent = sgld(target.log_density_fn, step_size=0.2, noise_scale=0.0)
    down, _ = descent.step(jax.random.key(0), descent.init(position))
    moved, info = silent.step(jax.random.key(0), silent.init(position))
    np.testing.assert_array_equal(down.position, moved.position)
    assert info.acceptance_prob == 0.0  # without noise there is no way back
    assert info.is_accepted


def drift(concentration, step_size):
    return lambda x: step_size * (concentration - np.exp(x))


@pytest.mark.parametrize(("temperature", "noise_scale"), [(None, None), (0.5, None), (None, 0.35)])
def test_skewed_target(temperature, noise_scale):
    """Against the invariant law of this very chain, found by quadrature; no temperature is 1."""
    concentration, step_size = 1.5, 0.3
    target = densities.log_gamma(jnp.array(concentration))
    sampler = sgld(
        target.log_density_fn, step_size=step_size, noise_scale=noise_scale, temperature=temperature
    )
    scale = noise_scale or np.sqrt(2 * step_size * (temperature or 1.0))
    expected = stationary_moments(drift(concentration, step_size), lambda _: scale, GRID)
    # The diffusion's gap is at least c^2 / 4T > 0.5 (its exponential tail), so that 60 steps of
    # 0.3 leave e^-9 of the start.
    draws, _ = run_replicas(jax.random.key(2), sampler, jnp.zeros(REPLICAS), 60)
    assert_moments(draws, *expected)
