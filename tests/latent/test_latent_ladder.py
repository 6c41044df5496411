"""One order of arguments, and one function for the samples that the losses take."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL, fixed_shift
from latent_problems import PAIR as X
from latent_problems import SQUARE as PARAMS

from ebmjax import latent
from ebmjax.samplers import fit_factor_gaussian

POWERS = latent.power_schedule(3, 2.0)
# Steps that only move: the prior's chains end three prior shifts from the base, the others two of
# their own.
CHAINS = latent.LatentChains(2, fixed_shift(100.0), 3, fixed_shift(-50.0), 2)


def test_parameters_come_before_the_model_everywhere():
    """And a key before both: ``jax.grad`` differentiates the first argument of a loss."""
    found = []
    for name in dir(latent):
        function = getattr(latent, name)
        if inspect.isfunction(function):
            arguments = list(inspect.signature(function).parameters)
            if {"params", "model"} <= set(arguments):
                found.append(name)
                place = int(arguments[0] == "key")
                assert arguments[place : place + 2] == ["params", "model"], (name, arguments)
    assert len(found) > 12, found


LOSSES = {
    "tempered": latent.tempered_loss,
    "telescoped": latent.telescoped_loss,
    "frozen_prior": latent.frozen_prior_loss,
    "covariance": functools.partial(latent.covariance_loss, num_chains=2),
}


def test_the_losses_take_what_the_ladder_returns():
    observations = jnp.repeat(X, 2, axis=0)
    samples, _ = latent.sample_ladder(
        jax.random.key(0), PARAMS, MODEL, observations, POWERS, CHAINS
    )
    assert samples.shape == (4, 4, 2)
    # The base's draws are within 6 of its own scale, 1.3, of 0.
    np.testing.assert_allclose(samples[0], 300.0, atol=8.0)
    np.testing.assert_allclose(samples[1:], -100.0, atol=8.0)
    for loss_fn in LOSSES.values():
        run = functools.partial(loss_fn, PARAMS, MODEL, observations, samples, samples[0], POWERS)
        value, metrics = jax.eval_shape(run)
        assert value.shape == ()
        assert metrics["mean_log_likelihoods"].shape == POWERS.shape
    posterior, prior = samples[-1], samples[0]
    run = functools.partial(latent.vanilla_loss, PARAMS, MODEL, observations, posterior, prior)
    _, metrics = jax.eval_shape(run)
    assert metrics["mean_log_likelihoods"].shape == (1,)


@pytest.mark.parametrize("powers", [POWERS[1:], POWERS[:-1], jnp.ones(1)])
def test_a_part_of_a_ladder_is_refused(powers):
    with pytest.raises(ValueError, match="powers must"):
        latent.sample_ladder(jax.random.key(0), PARAMS, MODEL, X, powers, CHAINS)


def test_posterior_chains_start_where_the_observation_says_and_go_on_where_they_stood():
    chains = CHAINS._replace(posterior_start=lambda x: 10.0 * x)
    run = functools.partial(
        latent.sample_ladder, jax.random.key(0), PARAMS, MODEL, X, POWERS, chains
    )
    above = run()[0][1:]
    np.testing.assert_allclose(above, np.broadcast_to(10.0 * X - 100.0, (3, 2, 2)), rtol=1e-6)
    stood = run(posterior_start=jnp.ones((3, 2, 2)))[0][1:]
    np.testing.assert_allclose(stood, -99.0, rtol=1e-6)


@pytest.mark.parametrize(("num", "dim"), [(200, 3), (200, 5), (4, 5)])
def test_principal_latents_are_numpys_whitened_components(num, dim):
    """The strongest ones; 4 images have 3 directions, and the other coordinates are 0."""
    images = np.random.default_rng(0).normal(size=(num, 2, 3, 1)) * np.arange(1, 4)[:, None]
    base = fit_factor_gaussian(images, num_directions=min(dim, 4) + 1, jitter=1e-12).one(0)
    found = latent.principal_latents(base, jnp.asarray(images, jnp.float32), dim)
    assert found.shape == (num, dim)
    flat = images.reshape(num, -1) - images.reshape(num, -1).mean(0)
    left, _, _ = np.linalg.svd(flat, full_matrices=False)
    count = min(dim, num - 1)
    expected = (left * np.sqrt(num))[:, :count][:, ::-1]
    overlap = np.abs(expected.T @ np.asarray(found[:, :count]) / num)
    np.testing.assert_allclose(overlap, np.eye(count), atol=1e-3)
    np.testing.assert_array_equal(found[:, count:], 0.0)
