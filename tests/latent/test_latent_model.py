"""The densities of the model, against scipy, and the errors for functions of the wrong shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.latent import LatentModel, LatentParams, log_likelihood, log_prior

PARAMS = LatentParams(prior=jnp.array([0.5, -1.0, 2.0]), generator=jnp.array(1.5))


def energy_fn(prior, z):
    return jnp.sum(prior * z**3)


def generator_fn(scale, z):
    return jnp.tanh(scale * jnp.outer(z, z)).reshape(3, 3, 1)


MODEL = LatentModel(energy_fn, generator_fn, base_scale=0.7, likelihood_scale=0.2)
Z, X = jnp.array([0.3, -0.8, 0.5]), jnp.linspace(-1.0, 1.0, 9).reshape(3, 3, 1)


def test_densities_are_scipys_with_their_constants():
    energy = float(np.sum(np.asarray(PARAMS.prior) * np.asarray(Z) ** 3))
    prior = -energy + stats.norm(0, 0.7).logpdf(Z).sum()
    likelihood = stats.norm(generator_fn(1.5, Z), 0.2).logpdf(X).sum()
    # Sums of 9 float32 terms of size up to 50.
    np.testing.assert_allclose(log_prior(PARAMS, MODEL, Z), prior, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        log_likelihood(PARAMS, MODEL, Z, X), likelihood, rtol=0, atol=9 * 50 * 1.2e-7
    )


def test_a_low_precision_generator_is_weighed_in_float32():
    """3072 pixels off by 1 sum to 3072, which bfloat16's 8 bits cannot reach one by one."""
    model = LatentModel(energy_fn, lambda _, z: jnp.ones(3072, jnp.bfloat16) + 0 * z[0], 1.0, 1.0)
    params = LatentParams(PARAMS.prior, None)
    value = log_likelihood(params, model, Z.astype(jnp.bfloat16), jnp.zeros(3072, jnp.bfloat16))
    assert value.dtype == jnp.float32
    expected = -0.5 * 3072 * (1 + np.log(2 * np.pi))
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_a_low_precision_latent_is_weighed_in_float32():
    """3071 coordinates at 1, a sum that bfloat16's 8 bits do not have."""
    model = LatentModel(lambda _, z: 0.0 * z[0], generator_fn, 1.0, 1.0)
    value = log_prior(LatentParams(None, None), model, jnp.ones(3071, jnp.bfloat16))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, -0.5 * 3071 * (1 + np.log(2 * np.pi)), rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MODEL._replace(energy_fn=lambda p, z: p * z), r"energy_fn must return a scalar.*\(3,\)"),
        (MODEL._replace(generator_fn=lambda p, z: z), r"generator_fn returned shape \(3,\).*3, 3"),
        (MODEL._replace(base_scale=0.0), "base_scale must be positive"),
        (MODEL._replace(likelihood_scale=-0.3), "likelihood_scale must be positive"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(model, message):
    def log_joint(params, model, z, x):
        return log_likelihood(params, model, z, x) + log_prior(params, model, z)

    for density in (log_joint, jax.jit(log_joint, static_argnums=1)):
        with pytest.raises(ValueError, match=message):
            density(PARAMS, model, Z, X)
