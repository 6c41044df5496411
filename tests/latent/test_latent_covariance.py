"""The covariance estimator against exact covariances and differences of what it follows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from latent_problems import (
    MODEL,
    OBSERVATIONS,
    assert_means,
    by_differences,
    evidence_by_differences,
    exact_draws,
    exact_metrics,
    exact_moments,
    make_params,
    standard_errors,
)

from ebmjax.latent import covariance_loss, log_evidence, power_schedule
from ebmjax.latent._losses import _covariances

NUM_PRIOR_PARAMS = 6


def repeated(num_chains, observations=OBSERVATIONS):
    """Every observation ``num_chains`` times in a row."""
    return jnp.repeat(jnp.asarray(observations), num_chains, axis=0)


def learning_gradients(
    params, power_latents, prior_latents, powers, num_chains, observations=OBSERVATIONS, **options
):
    """Minus the loss's gradient for each independent draw, shape (draws, num_params)."""
    x = repeated(num_chains, observations)

    def gradient(along, prior):
        def loss(params):
            return covariance_loss(
                params, MODEL, x, along, prior, powers, num_chains=num_chains, **options
            )[0]

        return -ravel_pytree(jax.grad(loss)(params))[0]

    return np.asarray(jax.jit(jax.vmap(gradient))(power_latents, prior_latents))


def gauss_hermite(mean, covariance):
    """Nodes (25, 2) and weights that integrate polynomials of degree 9 exactly."""
    x, w = np.polynomial.hermite_e.hermegauss(5)
    nodes = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    return mean + nodes @ np.linalg.cholesky(covariance).T, np.outer(w, w).ravel() / (2 * np.pi)


def exact_covariances(params, powers):
    """The docstring's definition by exact quadrature, in numpy: the integrands are of degree 4."""
    mean, covariance = map(np.asarray, exact_moments(params, powers))
    weight, bias = map(np.asarray, params.generator)
    widths = np.diff(np.asarray(powers)) / 2
    trapezium = np.append(widths, 0) + np.append(0, widths)
    total = np.zeros(NUM_PRIOR_PARAMS + 9)
    for i, t in enumerate(np.asarray(powers)):
        for j, x in enumerate(OBSERVATIONS):
            z, w = gauss_hermite(mean[i, j], covariance[i, j])
            offset = x - z @ weight.T - bias
            value = -0.5 * np.sum(offset**2, axis=1) / MODEL.likelihood_scale**2
            of_value = np.concatenate(
                [np.einsum("ni,nj->nij", offset, z).reshape(25, -1), offset], axis=1
            )
            of_value = of_value / MODEL.likelihood_scale**2
            of_prior = np.concatenate(
                [-0.5 * np.einsum("ni,nj->nij", z, z).reshape(25, -1), z], axis=1
            )
            centred = w * (value - w @ value)
            generator = w @ of_value + t * centred @ of_value
            total += trapezium[i] * np.concatenate([centred @ of_prior, generator])
    return total / len(OBSERVATIONS)


def trapezium_by_differences(params, powers):
    """The gradient of the trapezium sum of the exact mean log likelihoods."""

    def trapezium(params):
        def one(x):
            along = jax.vmap(lambda t: MODEL.mean_log_likelihood(params, x, t))
            return log_evidence(along(powers), powers)

        return jnp.mean(jax.vmap(one)(jnp.asarray(OBSERVATIONS)))

    return by_differences(trapezium, params)


def test_covariances_of_groups_are_without_bias():
    values, law = np.random.default_rng(0).normal(size=(2, 3, 12)).astype(np.float32)
    pairs = zip(values.reshape(3, 4, 3), law.reshape(3, 4, 3), strict=True)
    expected = [np.mean([np.cov(*one)[0, 1] for one in zip(*both, strict=True)]) for both in pairs]
    np.testing.assert_allclose(_covariances(values, law, 3), expected, rtol=1e-4, atol=1e-6)


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


def test_metrics_are_the_exact_means():
    """Within 5 standard errors of the closed forms, on two-dimensional events."""
    with jax.enable_x64(True):
        params, powers = make_params(), power_schedule(3, 2.0)
        draws = exact_draws(jax.random.key(3), params, powers, num_draws=4000, num_chains=2)
        images = repeated(2)[:, None, :]
        model = MODEL._replace(generator_fn=lambda p, z: MODEL.generator_fn(p, z)[None])
        metrics = jax.jit(
            jax.vmap(
                lambda along, prior: covariance_loss(
                    params, model, images, along, prior, powers, num_chains=2
                )[1]
            )
        )(*draws)
        expected = exact_metrics(params, powers)
    assert metrics.keys() == expected.keys()
    for name, values in metrics.items():
        assert_means(values, expected[name])


X = jnp.asarray(OBSERVATIONS, jnp.float32)
LATENTS = jax.random.normal(jax.random.key(4), (3, 4, 2))
PRIOR = jax.random.normal(jax.random.key(5), (5, 2))
POWERS = jnp.array([0.0, 0.5, 1.0])


def test_no_gradient_enters_a_sample():
    """Latents that depend on the parameters give the gradient of the same latents as constants."""
    params = make_params()

    def loss(params, source):
        shift = jnp.sum(source.prior.shift) + jnp.sum(source.generator.weight)
        return covariance_loss(
            params, MODEL, jnp.repeat(X, 2, axis=0), LATENTS + shift, PRIOR + shift, POWERS,
            num_chains=2, energy_l2=0.1,
        )[0]  # fmt: skip

    frozen = jax.jit(jax.grad(loss))(params, params)
    attached = jax.jit(jax.grad(lambda p: loss(p, p)))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), attached, frozen)


@pytest.mark.parametrize("num_chains", [1, 3])
def test_chains_that_do_not_divide_the_observations_are_refused(num_chains):
    call = functools.partial(covariance_loss, model=MODEL, observations=jnp.repeat(X, 2, axis=0))
    call = functools.partial(call, power_latents=LATENTS, prior_latents=PRIOR, powers=POWERS)
    with pytest.raises(ValueError, match="num_chains must"):
        call(make_params(), num_chains=num_chains)
