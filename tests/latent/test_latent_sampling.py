"""Short-run chains against their exact laws on the linear-Gaussian model."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL
from latent_problems import PAIR as OBSERVATIONS
from latent_problems import SQUARE as PARAMS

from ebmjax import latent
from ebmjax.samplers import sgld, svgd

POWERS = jnp.array([0.1, 0.25, 1.0])
STEP = 0.1
ULA = functools.partial(sgld, step_size=STEP)
CHAINS = 4000
posteriors = jax.jit(
    latent.sample_power_posteriors,
    static_argnums=(2, 5),
    static_argnames=("sampler", "num_steps", "warm_start"),
)


def power_target(x, power):
    """Mean and precision of the exact power posterior, in numpy."""
    mean, covariance = MODEL.power_posterior(PARAMS, x, power)
    return np.asarray(mean, np.float64), np.linalg.inv(np.asarray(covariance, np.float64))


def ula_law(start_mean, start_covariance, target, num_steps):
    """The exact law of unadjusted Langevin after some steps: z' - m = R (z - m) + sqrt(2 s) xi."""
    mean, precision = target
    contraction = np.eye(2) - STEP * precision
    for _ in range(num_steps):
        start_mean = mean + contraction @ (start_mean - mean)
        start_covariance = contraction @ start_covariance @ contraction + 2 * STEP * np.eye(2)
    return start_mean, start_covariance


def fresh_law(target, num_steps):
    return ula_law(np.zeros(2), MODEL.base_scale**2 * np.eye(2), target, num_steps)


def assert_drawn_from(samples, law, errors=5.0):
    """Means and covariances within 5 standard errors of those of a Gaussian law."""
    mean, covariance = law
    samples = np.asarray(samples, np.float64)
    n = len(samples)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(samples.mean(0) - mean), errors * scale / np.sqrt(n))
    # Var(S_ij) = (C_ij^2 + C_ii C_jj) / n for Gaussian samples.
    spread = np.sqrt((covariance**2 + np.outer(scale**2, scale**2)) / n)
    np.testing.assert_array_less(
        np.abs(np.cov(samples, rowvar=False) - covariance), errors * spread
    )


@pytest.mark.parametrize("num_steps", [1, 20])
def test_fresh_chains_have_the_exact_law_of_langevin(num_steps):
    """After 1 and after 20 steps, at every power, for each of two observations."""
    observations = jnp.repeat(OBSERVATIONS, CHAINS, axis=0)
    latents, _ = posteriors(
        jax.random.key(0), PARAMS, MODEL, observations, POWERS, 2, sampler=ULA, num_steps=num_steps
    )
    assert latents.shape == (3, 2 * CHAINS, 2)
    for i, power in enumerate(POWERS):
        for j, x in enumerate(OBSERVATIONS):
            law = fresh_law(power_target(x, power), num_steps)
            assert_drawn_from(latents[i, j * CHAINS : (j + 1) * CHAINS], law)


def test_warm_started_chains_pass_from_power_to_power():
    """Two steps at each power, each power beginning with the law the one before ended with."""
    observations = jnp.repeat(OBSERVATIONS[:1], CHAINS, axis=0)
    latents, metrics = posteriors(
        jax.random.key(1),
        PARAMS,
        MODEL,
        observations,
        POWERS,
        2,
        sampler=ULA,
        num_steps=2,
        warm_start=True,
    )
    assert latents.shape == (3, CHAINS, 2)
    assert metrics["acceptance_prob"].shape == (3,)
    law = np.zeros(2), MODEL.base_scale**2 * np.eye(2)
    for i, power in enumerate(POWERS):
        law = ula_law(*law, power_target(OBSERVATIONS[0], power), 2)
        assert_drawn_from(latents[i], law)
    with pytest.raises(AssertionError):
        assert_drawn_from(latents[2], fresh_law(power_target(OBSERVATIONS[0], 1.0), 2))


def test_prior_chains_have_the_exact_law_of_langevin():
    latents, _ = jax.jit(
        lambda key: latent.sample_prior(key, PARAMS, MODEL, CHAINS, 2, sampler=ULA, num_steps=20)
    )(jax.random.key(2))
    assert latents.shape == (CHAINS, 2)
    assert_drawn_from(latents, fresh_law(power_target(OBSERVATIONS[0], 0.0), 20))


@pytest.mark.parametrize("warm_start", [False, True])
def test_chains_are_independent_of_each_other(warm_start):
    """No two correlate, along the batch or along fresh powers; a changed image moves its own."""

    def run(observations):
        return posteriors(
            jax.random.key(3),
            PARAMS,
            MODEL,
            observations,
            POWERS,
            2,
            sampler=ULA,
            num_steps=3,
            warm_start=warm_start,
        )[0]

    observations = jnp.repeat(OBSERVATIONS[:1], 2000, axis=0)
    latents = run(observations)
    neighbours = latents.reshape(3, 1000, 4)
    for first, second in [(neighbours[:, :, :2], neighbours[:, :, 2:])] + (
        [] if warm_start else [(latents[:2], latents[1:])]
    ):
        n = first.shape[1]
        for a, b in zip(first, second, strict=True):
            correlation = np.corrcoef(a, b, rowvar=False)[:2, 2:]
            assert np.all(np.abs(correlation) < 5 / np.sqrt(n))

    changed = run(observations.at[7].set(3.0))
    moved = np.any(np.asarray(latents != changed), axis=-1)
    np.testing.assert_array_equal(np.nonzero(moved.any(0))[0], [7])


def test_a_blackjax_sampler_serves():
    """Hamiltonian chains, exact in law: 30 transitions with trajectories of length 1."""
    hmc = functools.partial(
        blackjax.hmc, step_size=0.2, inverse_mass_matrix=jnp.ones(2), num_integration_steps=5
    )
    observations = jnp.repeat(OBSERVATIONS[:1], CHAINS, axis=0)
    latents, metrics = posteriors(
        jax.random.key(7), PARAMS, MODEL, observations, POWERS, 2, sampler=hmc, num_steps=30
    )
    for i, power in enumerate(POWERS):
        mean, precision = power_target(OBSERVATIONS[0], power)
        assert_drawn_from(latents[i], (mean, np.linalg.inv(precision)))
    assert np.all((metrics["acceptance_prob"] > 0.8) & (metrics["acceptance_prob"] <= 1.0))


def test_particles_that_move_together_are_no_chains():
    particles = functools.partial(svgd, step_size=0.1)
    with pytest.raises(ValueError, match="For chains that move independently, use"):
        latent.sample_prior(jax.random.key(0), PARAMS, MODEL, 3, 2, sampler=particles, num_steps=2)
