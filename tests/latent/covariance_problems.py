"""References for the covariance estimator, and its gradients for many draws."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from latent_problems import MODEL, OBSERVATIONS, exact_moments

from ebmjax.latent import covariance_loss

NUM_PRIOR_PARAMS = 6


def repeated(num_chains, observations=OBSERVATIONS):
    """Every observation ``num_chains`` times in a row."""
    return jnp.repeat(jnp.asarray(observations), num_chains, axis=0)


def learning_gradients(
    params,
    power_latents,
    prior_latents,
    powers,
    num_chains,
    loss_fn=None,
    observations=OBSERVATIONS,
    **options,
):
    """Minus the loss's gradient for each independent draw, shape (draws, num_params)."""
    x = repeated(num_chains, observations)

    def gradient(along, prior):
        def loss(params):
            if loss_fn is not None:
                return loss_fn(params, along, powers, num_chains)
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
