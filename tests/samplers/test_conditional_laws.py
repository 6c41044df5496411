"""Chains on free entries and on posteriors: closed-form laws of Gaussians, for several samplers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean, run_replicas
from scipy.stats import multivariate_normal

from ebmjax import densities, samplers

MEAN = np.array([[0.5, -1.0], [2.0, 0.3], [-0.7, 1.1]])
FACTOR = np.random.default_rng(1).normal(size=(6, 6)) / 3
COVARIANCE = FACTOR @ FACTOR.T + 0.3 * np.eye(6)
GIVEN = np.array([[1.5, -0.2], [9.0, 9.0], [0.4, 2.0]])  # the middle row is not used
MASK = np.array([False, True, False])
FREE, KNOWN = np.array([2, 3]), np.array([0, 1, 4, 5])
OPERATOR = np.array([[1.0, 0.5, -1.0, 0.0, 0.3, 0.2], [0.0, 1.0, 0.4, -0.6, 0.0, 1.0]])
OBSERVED, NOISE = np.array([1.0, -0.5]), 1.0
TARGET = densities.gaussian(jnp.asarray(MEAN.ravel()), jnp.asarray(COVARIANCE))
SAMPLERS = {
    "mala": partial(samplers.mala, step_size=0.1),
    "hmc": partial(samplers.hmc, step_size=0.03, num_integration_steps=3),
    "sgld": partial(samplers.sgld, step_size=0.1),
    "tilted_langevin": lambda f: samplers.tilted_langevin(
        lambda x: f(x) + 0.5 * jnp.sum(x**2), step_size=0.1
    ),
}


def log_density(image):
    return TARGET.log_density_fn(image.ravel())


def conditional_law():
    gain = COVARIANCE[np.ix_(FREE, KNOWN)] @ np.linalg.inv(COVARIANCE[np.ix_(KNOWN, KNOWN)])
    mean = MEAN.ravel()[FREE] + gain @ (GIVEN.ravel() - MEAN.ravel())[KNOWN]
    return mean, COVARIANCE[np.ix_(FREE, FREE)] - gain @ COVARIANCE[np.ix_(KNOWN, FREE)]


def posterior_law():
    covariance = np.linalg.inv(np.linalg.inv(COVARIANCE) + OPERATOR.T @ OPERATOR / NOISE**2)
    pull = np.linalg.solve(COVARIANCE, MEAN.ravel()) + OPERATOR.T @ OBSERVED / NOISE**2
    return covariance @ pull, covariance


LAWS = {
    "condition": (lambda: densities.condition(log_density, GIVEN, MASK), conditional_law),
    "observe": (
        lambda: densities.observe(log_density, lambda x: OPERATOR @ x.ravel(), OBSERVED, NOISE),
        posterior_law,
    ),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_chains_have_the_mean_and_covariance_of_the_closed_form(law, name):
    make, find = LAWS[law]
    mean, covariance = find()
    if name == "sgld":  # its law on a Gaussian, for its step
        step = SAMPLERS["sgld"].keywords["step_size"]
        covariance = np.linalg.inv(np.linalg.inv(covariance) @ (
            np.eye(len(mean)) - step / 2 * np.linalg.inv(covariance)))  # fmt: skip
    shape = (3, 2) if law == "observe" else (1, 2)
    starts = jax.random.normal(jax.random.key(2), (4000, *shape))
    ends, _ = run_replicas(jax.random.key(3), SAMPLERS[name](make()), starts, 250)
    found = np.asarray(ends, np.float64).reshape(len(ends), -1)
    assert_mean(found, mean)
    assert_mean((found - mean)[:, :, None] * (found - mean)[:, None], covariance)


def test_a_conditional_density_differs_from_the_whole_one_by_a_constant():
    whole = jnp.asarray(GIVEN)
    conditional = densities.condition(log_density, GIVEN, MASK)
    assert whole[MASK].shape == (1, 2)
    np.testing.assert_allclose(conditional(whole[MASK]), log_density(whole), rtol=1e-6)
    law = multivariate_normal(*conditional_law())
    points = np.random.default_rng(0).normal(size=(20, 1, 2))
    found = jax.vmap(conditional)(jnp.asarray(points))
    np.testing.assert_allclose(found - found[0], law.logpdf(points[:, 0]) - law.logpdf(points[0]),
                               rtol=1e-4, atol=1e-4)  # fmt: skip


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: densities.condition(log_density, GIVEN, MASK[:2]), "mask must be bools of the fi"),
        (lambda: densities.condition(log_density, GIVEN, [0, 1, 0]), "got int64 of "),
        (lambda: densities.observe(log_density, jnp.sum, 0.0, 0.0), "noise_scale must be positive"),
        (
            lambda: densities.observe(log_density, jnp.sum, np.ones(2), 1.0)(GIVEN),
            "operator must re",
        ),
    ],
)
def test_mistakes_are_named(make, expected):
    with pytest.raises(ValueError, match=expected):
        make()


def matrix(gaussian, shape):
    """The covariance that one Gaussian stands for, column by column."""
    units = np.eye(np.prod(shape), dtype=np.float32)
    columns = [gaussian.colour(*gaussian.whiten(e.reshape(shape), 1.0)).ravel() for e in units]
    return np.stack(columns, axis=1).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("has_margins", [False, True])
@pytest.mark.parametrize("num_directions", [1, 3])
def test_the_conditional_of_a_mixture_with_few_directions(num_directions, has_margins):
    """Means, covariances and weights are those of the whole covariances, of normal variables."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [15, 25])
    images = (rng.normal(size=(40, 6)) @ FACTOR * 3 + labels[:, None]).reshape(40, 3, 2)
    base = samplers.fit_factor_gaussian(images, labels, num_directions=num_directions, jitter=0.01)
    given = np.stack([GIVEN, -GIVEN])
    if has_margins:
        base, given = base._replace(margins=samplers.fit_margins(np.tanh(images))), np.tanh(given)
    conditional = samplers.condition_gaussian(base, given, MASK)
    if has_margins:
        np.testing.assert_array_equal(conditional.margins.shares, base.margins.shares[:, MASK])
    logs = np.zeros((2, 2))
    for image, label in np.ndindex(2, 2):
        whole = base.one(label)
        covariance, mean = matrix(whole, (3, 2)), np.ravel(whole.mean).astype(float)
        cross, known = covariance[np.ix_(FREE, KNOWN)], covariance[np.ix_(KNOWN, KNOWN)]
        g = np.ravel(base.gaussianise(jnp.float32(given[image]))[0]).astype(float)
        offset = (g - mean)[KNOWN]
        own = conditional._replace(mean=conditional.mean[image]).one(label)
        expected = mean[FREE] + cross @ np.linalg.solve(known, offset)
        np.testing.assert_allclose(np.ravel(own.mean), expected, rtol=1e-3, atol=1e-4)
        expected = covariance[np.ix_(FREE, FREE)] - cross @ np.linalg.solve(known, cross.T)
        np.testing.assert_allclose(matrix(own, (1, 2)), expected, rtol=1e-3, atol=1e-5)
        logs[image, label] = multivariate_normal(cov=known).logpdf(offset)
    logs += np.log([15 / 40, 25 / 40])
    logs -= np.logaddexp(*logs.T)[:, None]
    # Differences of log densities up to 1e4, each rounded to float32.
    np.testing.assert_allclose(conditional.log_weights, logs, rtol=1e-3, atol=1e-2)
