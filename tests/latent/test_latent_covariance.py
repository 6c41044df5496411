"""The covariance estimator against exact covariances and differences of what it follows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from covariance_problems import exact_covariances, learning_gradients
from latent_problems import (
    MODEL,
    OBSERVATIONS,
    assert_means,
    by_differences,
    evidence_by_differences,
    exact_draws,
    make_params,
    standard_errors,
)

from ebmjax.latent import (
    covariance_loss,
    linear_gaussian_mean_log_likelihood,
    log_evidence,
    power_schedule,
)


def trapezium_by_differences(params, powers):
    """The gradient of the trapezium sum of the exact mean log likelihoods."""

    def trapezium(params):
        def one(x):
            along = jax.vmap(lambda t: linear_gaussian_mean_log_likelihood(params, MODEL, x, t))
            return log_evidence(along(powers), powers)

        return jnp.mean(jax.vmap(one)(jnp.asarray(OBSERVATIONS)))

    return by_differences(trapezium, params)


@pytest.mark.slow
def test_matches_exact_covariances():
    """Two chains, where n - 1 for n is a factor of 2: within 5 standard errors of 4000 draws."""
    with jax.enable_x64(True):
        params, powers = make_params(), power_schedule(3, 2.0)
        draws = exact_draws(jax.random.key(0), params, powers, num_draws=4000, num_chains=2)
        gradients = learning_gradients(params, *draws, powers, 2)
        defined = exact_covariances(params, powers)
        differences = trapezium_by_differences(params, powers)
        exact = evidence_by_differences(params)
    # What is defined is the derivative of the trapezium sum; 1e-7 is that of the differences.
    np.testing.assert_allclose(defined, differences, atol=1e-7)
    assert_means(gradients, defined)
    errors = standard_errors(gradients)
    assert np.linalg.norm(errors) < 0.1 * np.linalg.norm(defined)
    # And not, with three intervals, the gradient of the log evidence.
    assert np.max(np.abs(defined - exact) / errors) > 10


X = jnp.asarray(OBSERVATIONS, jnp.float32)
LATENTS = jax.random.normal(jax.random.key(4), (3, 4, 2))
PRIOR = jax.random.normal(jax.random.key(5), (5, 2))
POWERS = jnp.array([0.0, 0.5, 1.0])


def test_prior_chains_serve_every_observation_alike():
    """Which of them came with which observation changes nothing but rounding."""
    flipped = LATENTS.at[0].set(LATENTS[0, jnp.array([2, 0, 1, 3])])
    x = jnp.repeat(X, 2, axis=0)
    gradient = jax.jit(
        lambda latents: jax.grad(
            lambda p: covariance_loss(p, MODEL, x, latents, PRIOR, POWERS, num_chains=2)[0]
        )(make_params())
    )
    expected = gradient(LATENTS)
    # Entries are sums of terms of order 100: 1e-4 is ten times float32's rounding of them.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), gradient(flipped), expected
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_chains": 1}, "num_chains must be an integer of at least 2"),
        ({"num_chains": 3}, "num_chains must divide the 4 observations.*got num_chains=3"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {
        "observations": jnp.repeat(X, 2, axis=0),
        "power_latents": LATENTS,
        "prior_latents": PRIOR,
        "powers": POWERS,
        "num_chains": 2,
    }
    call = functools.partial(covariance_loss, model=MODEL, **{**arguments, **changes})
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda params: call(params), make_params())
