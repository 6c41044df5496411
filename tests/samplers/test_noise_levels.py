"""Chains of densities of noisy data on a Gaussian, where every step is a linear map."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.samplers import run_annealed_langevin, run_recovery_chains

MEAN, VARIANCE = np.array([1.0, -2.0]), np.array([0.5, 0.04])


def log_density(x, noise_scale):
    return -0.5 * jnp.sum((x - MEAN) ** 2 / (VARIANCE + noise_scale**2))


@pytest.mark.parametrize("step", [0.3, 1.0])
def test_the_ends_have_the_law_of_the_recursion(step):
    """Mean and variance go through linear maps; 20,000 chains have them to 5 standard errors."""
    noise_scales, num = np.geomspace(5.0, 0.2, 12), 20_000
    mean, variance = np.zeros(2), np.full(2, 25.0)
    for noise in noise_scales:
        kept = 1 - step * noise**2 / (VARIANCE + noise**2)
        mean, variance = MEAN + kept * (mean - MEAN), kept**2 * variance + 2 * step * noise**2
    kept = 1 - noise_scales[-1] ** 2 / (VARIANCE + noise_scales[-1] ** 2)
    mean, variance = MEAN + kept * (mean - MEAN), kept**2 * variance
    keys = jax.random.split(jax.random.key(0), num)
    starts = 5.0 * jax.random.normal(jax.random.key(1), (num, 2))
    ends = jax.jit(
        jax.vmap(
            lambda key, start: run_annealed_langevin(
                key, start, log_density, noise_scales=noise_scales, relative_step=step
            )
        )
    )(keys, starts)
    ends = np.asarray(ends, np.float64)
    np.testing.assert_array_less(abs(ends.mean(0) - mean), 5 * np.sqrt(variance / num))
    error = 5 * np.sqrt(2 / num)
    np.testing.assert_array_less(abs(ends.var(0) / variance - 1), error)


@pytest.mark.parametrize(
    ("noise_scales", "message"),
    [
        ([0.1, 1.0], "must go from the largest to the smallest: sort them"),
        ([1.0, 0.0], "noise_scales must be positive and finite"),
        (1.0, r"must have shape \(K,\), K at least 1, got \(\)"),
    ],
)
def test_levels_out_of_order_are_refused(noise_scales, message):
    with pytest.raises(ValueError, match=message):
        run_annealed_langevin(
            jax.random.key(0), jnp.zeros(2), log_density, noise_scales=jnp.array(noise_scales)
        )


CENTRE, SPREAD = 1.0, 0.5
NOISY, NOISE = np.array([-1.0, 2.0]), np.array([0.3, 1.0])
RELATIVE, NUM = 0.1, 20_000


@pytest.mark.parametrize("num_steps", [3, 200])
def test_the_ends_have_the_law_of_the_recursion_and_at_last_the_posterior(num_steps):
    """Means and variances of 20,000 chains of two noises, to 5 standard errors."""
    size = RELATIVE * NOISE**2
    mean, variance = NOISY.copy(), np.zeros(2)
    for _ in range(num_steps):
        mean = mean + size * (CENTRE - mean) / SPREAD + RELATIVE * (NOISY - mean)
        variance = (1 - size / SPREAD - RELATIVE) ** 2 * variance + 2 * size
    if num_steps == 200:
        precision = 1 / SPREAD + 1 / NOISE**2
        np.testing.assert_allclose(mean, (CENTRE / SPREAD + NOISY / NOISE**2) / precision)
        # Langevin steps without rejection widen a Gaussian by this factor.
        np.testing.assert_allclose(variance, 1 / (precision * (1 - size * precision / 2)))
    ends = jax.jit(
        lambda key: run_recovery_chains(
            key,
            jnp.repeat(NOISY, NUM)[:, None],
            lambda x: -0.5 * jnp.sum((x - CENTRE) ** 2, axis=1) / SPREAD,
            noise_scale=jnp.repeat(NOISE, NUM),
            num_steps=num_steps,
            relative_step=RELATIVE,
        )
    )(jax.random.key(0))
    ends = np.asarray(ends, np.float64).reshape(2, NUM)
    np.testing.assert_array_less(abs(ends.mean(1) - mean), 5 * np.sqrt(variance / NUM))
    np.testing.assert_array_less(abs(ends.var(1) / variance - 1), 5 * np.sqrt(2 / NUM))
