"""The estimators' linear-Gaussian test bed: exact draws, gradients and means, chains' laws."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ebmjax import latent
from ebmjax.latent._linear_gaussian import QuadraticPrior
from ebmjax.types import Sampler

MODEL = latent.LinearGaussian(base_scale=1.3, likelihood_scale=0.6)
OBSERVATIONS = np.array([[1.5, -0.8, 0.6], [-0.4, 1.1, -1.3]])


def make_params(dtype=None):
    """A tilted, correlated, off-centre prior (d = 2) under a non-square generator (3 outputs).

    The tilt's matrix is not symmetric, so a closed form that forgets to symmetrise it fails.
    """
    arrays = (
        [[0.7, 0.5], [-0.1, 0.3]],
        [0.8, -0.4],
        [[1.0, -0.5], [0.3, 0.9], [-0.7, 0.2]],
        [0.1, -0.2, 0.3],
    )
    return MODEL.params(*(jnp.array(array, dtype) for array in arrays))


SQUARE = MODEL.params(
    jnp.array([[0.7, 0.2], [0.2, 0.3]]),
    jnp.array([0.8, -0.4]),
    jnp.array([[1.0, -0.5], [0.3, 0.9]]),
    jnp.array([0.1, -0.2]),
)
PAIR = jnp.array([[1.5, -0.8], [-2.0, 0.6]])
"""Parameters with a square generator, and observations of its two outputs."""


class State(NamedTuple):
    position: Any


def fixed_shift(shift):
    """A step that moves by ``shift``, so that chains can be followed by hand."""

    def factory(log_density_fn):
        return Sampler(
            init=lambda position: State(position),
            step=lambda key, state: (State(state.position + shift), log_density_fn(state.position)),
        )

    return factory


def exact_moments(params, powers, observations=OBSERVATIONS):
    """Means (num_powers, batch, d) and covariances, of every power and observation."""

    def one(power, x):
        return MODEL.power_posterior(params, x, power)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(powers, jnp.asarray(observations))


def exact_draws(key, params, powers, *, num_draws, num_chains=1, observations=OBSERVATIONS):
    """Latents (draws, num_powers, batch * num_chains, d) and prior ones (draws, 2, d)."""
    mean, covariance = exact_moments(params, powers, observations)
    mean, factor = (
        jnp.repeat(array, num_chains, axis=1) for array in (mean, jnp.linalg.cholesky(covariance))
    )
    power_key, prior_key = jax.random.split(key)
    noise = jax.random.normal(power_key, (num_draws, *mean.shape))
    power_latents = mean[None] + jnp.einsum("pbij,npbj->npbi", factor, noise)
    prior_noise = jax.random.normal(prior_key, (num_draws, 2, 2))
    return power_latents, mean[None, :1, 0] + prior_noise @ factor[0, 0].T


def by_differences(fn, params):
    """Central differences of a scalar function of the parameters, shape (num_params,).

    With the step 1e-5 the truncation and, for values of order 10 in float64, the rounding are both
    of order 1e-10.
    """
    flat, unravel = ravel_pytree(params)
    steps = 1e-5 * jnp.eye(flat.size)
    evaluate = jax.jit(jax.vmap(lambda flat: fn(unravel(flat))))
    return np.asarray((evaluate(flat[None] + steps) - evaluate(flat[None] - steps)) / 2e-5)


def evidence_by_differences(params):
    """The gradient of the exact mean log evidence."""

    def evidence(params):
        one = jax.vmap(lambda x: MODEL.log_evidence(params, x))
        return jnp.mean(one(jnp.asarray(OBSERVATIONS)))

    return by_differences(evidence, params)


def standard_errors(gradients):
    return gradients.std(0, ddof=1) / np.sqrt(len(gradients))


def exact_energy(params, mean, covariance):
    """The mean of the quadratic energy under one Gaussian, in numpy."""
    A, c = map(np.asarray, params.prior)
    return 0.5 * (mean @ A @ mean + np.trace(A @ covariance)) - c @ mean


def energy_penalty_by_hand(params, posterior_latents, prior_latents):
    """The mean squares of both kinds of energies, added, and their gradient, in numpy."""
    A, c = map(np.asarray, params.prior)
    value, precision, shift = 0.0, np.zeros((2, 2)), np.zeros(2)
    for latents in (np.asarray(posterior_latents), np.asarray(prior_latents)):
        for z in latents:
            energy = 0.5 * z @ A @ z - c @ z
            value += energy**2 / len(latents)
            precision += energy * np.outer(z, z) / len(latents)
            shift -= 2 * energy * z / len(latents)
    return value, QuadraticPrior(precision, shift)


def exact_metrics(params, powers):
    """The expectations of every loss's metrics under exact samples."""
    along = jax.vmap(lambda t, x: MODEL.mean_log_likelihood(params, x, t), (None, 0))
    along = np.asarray(jax.vmap(along, (0, None))(powers, jnp.asarray(OBSERVATIONS))).mean(1)
    mean, covariance = map(np.asarray, exact_moments(params, powers))
    scale = MODEL.likelihood_scale
    squares = -2 * scale**2 * (along[-1] + 1.5 * np.log(2 * np.pi * scale**2))
    ends = [exact_energy(params, mean[-1, j], covariance[-1, j]) for j in (0, 1)]
    return {
        "mean_log_likelihoods": along,
        "reconstruction_error": squares / 3,
        "prior_energy": exact_energy(params, mean[0, 0], covariance[0, 0]),
        "posterior_energy": np.mean(ends),
    }


def assert_means(values, expected, allowance=0.0):
    """Independent draws (draws, ...) average to ``expected`` within 5 standard errors.

    ``allowance`` adds a bias that the caller has derived.
    """
    values = np.asarray(values, np.float64)
    gap = np.abs(values.mean(0) - expected)
    assert np.all(gap < 5 * standard_errors(values) + allowance), gap / standard_errors(values)


def langevin_law(precision, shift, step_size, num_steps):
    """Mean and covariance of ULA from the base, on the Gaussian with these natural parameters."""
    mean, covariance = np.zeros(2), MODEL.base_scale**2 * np.eye(2)
    contraction = np.eye(2) - step_size * precision
    for _ in range(num_steps):
        mean = mean + step_size * (shift - precision @ mean)
        covariance = contraction @ covariance @ contraction + 2 * step_size * np.eye(2)
    return mean, covariance


def chain_laws(params, powers, steps):
    """Means (num_powers, 2, d) and covariances of the chains' ends, prior chains first."""
    (A, c), (W, b) = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tuple(params))
    laws = []
    for i, t in enumerate(np.asarray(powers) / MODEL.likelihood_scale**2):
        precision = 0.5 * (A + A.T) + np.eye(2) / MODEL.base_scale**2 + t * W.T @ W
        laws.append(
            [langevin_law(precision, c + t * W.T @ (x - b), *steps[i > 0]) for x in OBSERVATIONS]
        )
    return np.array([[law[0] for law in row] for row in laws]), np.array(
        [[law[1] for law in row] for row in laws]
    )


def mean_log_likelihoods(params, mean, covariance):
    W, b = (np.asarray(leaf, np.float64) for leaf in params.generator)
    offset = OBSERVATIONS - mean @ W.T - b
    squares = np.sum(offset**2, axis=-1) + np.einsum("ki,pbij,kj->pb", W, covariance, W)
    scale = MODEL.likelihood_scale
    return -0.5 * squares / scale**2 - 1.5 * np.log(2 * np.pi * scale**2)


def divergence(p, q, kind):
    """KL(p || q) of Gaussians, or with ``kind`` "diagonal" the sum of their coordinates'."""
    (mean_p, cov_p), (mean_q, cov_q) = p, q
    if kind == "diagonal":
        cov_p, cov_q = np.diag(np.diag(cov_p)), np.diag(np.diag(cov_q))
    precision = np.linalg.inv(cov_q)
    offset = mean_p - mean_q
    log_dets = np.linalg.slogdet(cov_q)[1] - np.linalg.slogdet(cov_p)[1]
    return 0.5 * (np.trace(precision @ cov_p) + offset @ precision @ offset - 2 + log_dets)
