"""Chains that go on from given positions, and chains that are differentiated."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import evidence, latent
from ebmjax.samplers import gradient_descent, underdamped_langevin

MODEL = latent.LatentModel(
    energy_fn=lambda a, z: 0.5 * a * jnp.sum(z**2), generator_fn=lambda w, z: w * z, base_scale=1.0
)
PARAMS = latent.LatentParams(jnp.array(0.5), jnp.array(0.3))
OBSERVATIONS = jnp.array([[1.0, -2.0], [0.5, 0.0], [2.0, 1.0]])
POWERS = jnp.array([0.25, 1.0])
STEP = 0.05
DESCENT = functools.partial(gradient_descent, step_size=STEP)


def test_prior_chains_go_on_from_start():
    """Without noise two steps contract by (1 - step (1 + a))^2, the Gaussian base included."""
    start = jnp.array([[1.0, -3.0], [2.0, 0.5]])
    ends, _ = latent.sample_prior(
        jax.random.key(0), PARAMS, MODEL, 2, 2, sampler=DESCENT, num_steps=2, start=start
    )
    np.testing.assert_allclose(ends, (1 - STEP * 1.5) ** 2 * start, rtol=1e-6)


def test_power_posterior_chains_go_on_from_start():
    """Each from its own position: one step along t w (x - w z) / s^2 - 1.5 z."""
    start = jax.random.normal(jax.random.key(1), (2, 3, 2))
    ends, _ = latent.sample_power_posteriors(
        jax.random.key(0), PARAMS, MODEL, OBSERVATIONS, POWERS, 2,
        sampler=DESCENT, num_steps=1, start=start,
    )  # fmt: skip
    weight, variance = 0.3, MODEL.likelihood_scale**2
    pull = weight * (OBSERVATIONS[None] - weight * start) / variance
    expected = start + STEP * (POWERS[:, None, None] * pull - 1.5 * start)
    np.testing.assert_allclose(ends, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3, 1)])
def test_start_of_another_shape_is_refused(shape):
    start = jnp.zeros(shape)
    with pytest.raises(ValueError, match=r"start must have shape \(2, 3, 2\)"):
        latent.sample_power_posteriors(
            jax.random.key(0), PARAMS, MODEL, OBSERVATIONS, POWERS, 2,
            sampler=DESCENT, num_steps=1, start=start,
        )  # fmt: skip


def test_start_and_warm_start_exclude_each_other():
    with pytest.raises(ValueError, match="exclude each other"):
        latent.sample_power_posteriors(
            jax.random.key(0), PARAMS, MODEL, OBSERVATIONS, POWERS, 2,
            sampler=DESCENT, num_steps=1, start=jnp.zeros((2, 3, 2)), warm_start=True,
        )  # fmt: skip


@pytest.mark.slow
def test_every_chain_draws_its_own_start():
    """The first move without friction is sqrt(2 step) times the velocity, beside the drift.

    Chains of the prior, of every power and observation, and of annealing, whose last power is 1.
    """
    step, num = 0.02, 4000
    sampler = functools.partial(underdamped_langevin, step_size=step, friction=1e-9)
    start = jnp.zeros((num, 2))
    key, options = jax.random.key(0), {"sampler": sampler, "num_steps": 1}
    moved = {"prior": latent.sample_prior(key, PARAMS, MODEL, num, 2, start=start, **options)[0]}
    observations = jnp.ones((num, 2))
    moved["powers"], _ = latent.sample_power_posteriors(
        key, PARAMS, MODEL, observations, POWERS, 2, start=jnp.stack([start, start]), **options
    )
    moved["annealed"] = evidence.annealed_importance_sampling(
        key, start, jnp.array([0.0, 1.0]), lambda z: -0.5 * jnp.sum(z**2), jnp.sum, **options
    ).positions
    for name, ends in moved.items():
        drawn = np.float64(ends - jnp.mean(ends, axis=-2, keepdims=True)).ravel()
        assert len(np.unique(drawn)) > 0.99 * len(drawn), name  # float32 has some values twice
        # Of a Gaussian's variance the standard error is its size times sqrt(2 / n).
        assert abs(drawn.var() / (2 * step) - 1) < 5 * np.sqrt(2 / len(drawn)), name
