"""Recovery chains on a Gaussian, where every step is a linear map and the posterior is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.samplers import run_recovery_chains

MEAN, VARIANCE = 1.0, 0.5
NOISY, NOISE = np.array([-1.0, 2.0]), np.array([0.3, 1.0])
STEP, NUM = 0.1, 20_000


@pytest.mark.parametrize("num_steps", [3, 200])
def test_the_ends_have_the_law_of_the_recursion_and_at_last_the_posterior(num_steps):
    """Means and variances of 20,000 chains of two noises, to 5 standard errors."""
    size = STEP * NOISE**2
    mean, variance = NOISY.copy(), np.zeros(2)
    for _ in range(num_steps):
        mean = mean + size * (MEAN - mean) / VARIANCE + STEP * (NOISY - mean)
        variance = (1 - size / VARIANCE - STEP) ** 2 * variance + 2 * size
    if num_steps == 200:
        precision = 1 / VARIANCE + 1 / NOISE**2
        np.testing.assert_allclose(mean, (MEAN / VARIANCE + NOISY / NOISE**2) / precision)
        # Langevin steps without rejection widen a Gaussian by this factor.
        np.testing.assert_allclose(variance, 1 / (precision * (1 - size * precision / 2)))
    ends = jax.jit(
        lambda key: run_recovery_chains(
            key,
            jnp.repeat(NOISY, NUM)[:, None],
            lambda x: -0.5 * jnp.sum((x - MEAN) ** 2, axis=1) / VARIANCE,
            noise_scale=jnp.repeat(NOISE, NUM),
            num_steps=num_steps,
            relative_step=STEP,
        )
    )(jax.random.key(0))
    ends = np.asarray(ends, np.float64).reshape(2, NUM)
    np.testing.assert_array_less(abs(ends.mean(1) - mean), 5 * np.sqrt(variance / NUM))
    np.testing.assert_array_less(abs(ends.var(1) / variance - 1), 5 * np.sqrt(2 / NUM))


def test_steps_and_noise_are_positive():
    for name in ("noise_scale", "relative_step"):
        options = {"noise_scale": 1.0, "relative_step": 0.1, name: 0.0}
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            run_recovery_chains(
                jax.random.key(0), jnp.zeros(2), lambda x: -jnp.sum(x**2), num_steps=1, **options
            )
