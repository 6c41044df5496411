"""The schedule, the sums and their divergences, on the model where all is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL, OBSERVATIONS, make_params
from scipy import stats

from ebmjax.evidence import thermodynamic_log_evidence, trapezium_weights
from ebmjax.latent import (
    log_evidence,
    log_likelihood,
    log_prior,
    power_schedule,
)

OBSERVATION = OBSERVATIONS[0]
TERMS = ("mean_log_likelihoods", "kl_forward", "kl_backward")


@jax.jit
def exact_terms(params, x, powers):
    """The three arguments of ``log_evidence``, in its order."""
    terms = MODEL.terms(params, x, powers)
    return [terms[name] for name in TERMS]


def marginal_log_density(params, x):
    """log p(x) in numpy: z has precision sym(A) + I/s0^2, x = W z + b + noise."""
    (A, c), (W, b) = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tuple(params))
    covariance = np.linalg.inv((A + A.T) / 2 + np.eye(2) / MODEL.base_scale**2)
    noise = MODEL.likelihood_scale**2 * np.eye(3)
    law = stats.multivariate_normal(W @ covariance @ c + b, W @ covariance @ W.T + noise)
    return law.logpdf(x)


def rounding(params, terms, dtype):
    """The error that rounding may leave in a sum of these terms.

    Each comes out of Cholesky solves, accurate to about d * condition * eps relative, the worst
    condition being that of the posterior's precision. The last factor of 4 is for the several
    solves and sums within one term.
    """
    (A, _), (W, _) = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tuple(params))
    prior = (A + A.T) / 2 + np.eye(2) / MODEL.base_scale**2
    condition = np.linalg.cond(prior + W.T @ W / MODEL.likelihood_scale**2)
    size = sum(np.sum(np.abs(np.asarray(term))) for term in terms)
    return 4 * 2 * condition * float(jnp.finfo(dtype).eps) * float(size)


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
@pytest.mark.parametrize("exponent", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("num_intervals", [1, 2, 5, 10])
def test_identity_is_exact_with_minus_and_not_with_plus(num_intervals, exponent, dtype):
    with jax.enable_x64(dtype == jnp.float64):
        params, x = make_params(dtype), jnp.asarray(OBSERVATION, dtype)
        powers = power_schedule(num_intervals, exponent)
        energies, forward, backward = exact_terms(params, x, powers)
        value = log_evidence(energies, powers, kl_forward=forward, kl_backward=backward)
        assert value.dtype == dtype
        exact = marginal_log_density(params, np.asarray(x, np.float64))
        tolerance = rounding(params, (energies, forward, backward), dtype)
        np.testing.assert_allclose(value, exact, rtol=0, atol=tolerance)
        plus = log_evidence(energies, powers, kl_forward=forward, kl_backward=-backward)
        assert abs(float(plus) - exact) > 100 * tolerance


def test_closed_forms_agree_with_quadrature():
    """Moments, E_t, log Z and log p(x) by brute-force summation over a grid of latents.

    The rule is the trapezium one on a smooth function that vanishes at the edges, which converges
    faster than any power of the spacing: 0.05 against standard deviations of 0.3 and more, cut 7
    or more of the widest, about 1.2, away, where exp(-7^2 / 2) is 2e-11.
    """
    with jax.enable_x64(True):
        params, x = make_params(), jnp.asarray(OBSERVATION)
        axis = jnp.linspace(-9.0, 9.0, 361)
        grid = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
        cell = float(axis[1] - axis[0]) ** 2
        prior = np.asarray(jax.vmap(lambda z: log_prior(params, MODEL, z))(grid))
        likelihood = np.asarray(jax.vmap(lambda z: log_likelihood(params, MODEL, z, x))(grid))
        joint = likelihood + prior
        grid = np.asarray(grid)

        log_z = np.log(np.sum(np.exp(prior)) * cell)
        np.testing.assert_allclose(MODEL.log_normalizer(params), log_z, atol=1e-10)
        evidence = np.log(np.sum(np.exp(joint)) * cell) - log_z
        exact = MODEL.log_evidence(params, x)
        np.testing.assert_allclose(exact, evidence, atol=1e-10)
        np.testing.assert_allclose(exact, marginal_log_density(params, OBSERVATION), atol=1e-10)

        for power in (0.0, 0.3, 1.0):
            weights = np.exp(power * likelihood + prior)
            weights /= weights.sum()
            moments = MODEL.power_posterior(params, x, power)
            mean, covariance = map(np.asarray, moments)
            centred = grid - mean
            np.testing.assert_allclose(weights @ grid, mean, atol=1e-10)
            np.testing.assert_allclose((weights * centred.T) @ centred, covariance, atol=1e-10)
            energy = MODEL.mean_log_likelihood(params, x, power)
            np.testing.assert_allclose(weights @ likelihood, energy, atol=1e-9)


@pytest.mark.parametrize("num_intervals", [25, 100])
def test_without_divergences_the_error_is_that_of_the_trapezium_rule(num_intervals):
    """Euler-Maclaurin: h^2 [E'] / 12 - h^4 [E'''] / 720 + ..., differences between the ends.

    The term after has a factor of h^2 more, so twice the second bounds what follows the first.
    """
    with jax.enable_x64(True):
        params, x = make_params(), jnp.asarray(OBSERVATION)
        powers = power_schedule(num_intervals, 1.0)
        energies = exact_terms(params, x, powers)[0]
        error = float(log_evidence(energies, powers)) - marginal_log_density(params, OBSERVATION)

        def energy(power):
            return MODEL.mean_log_likelihood(params, x, power)

        slope, third = jax.jit(jax.grad(energy)), jax.jit(jax.grad(jax.grad(jax.grad(energy))))
        first = float(slope(1.0) - slope(0.0)) / (12 * num_intervals**2)
        second = float(third(1.0) - third(0.0)) / (720 * num_intervals**4)
        assert abs(second) < 0.01 * abs(first)
        np.testing.assert_allclose(error, first, rtol=0, atol=2 * abs(second))


@pytest.mark.parametrize("exponent", [0.1, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("num_intervals", [1, 2, 10, 30])
def test_schedule_ends_and_spacing(num_intervals, exponent):
    powers = np.asarray(power_schedule(num_intervals, exponent))
    expected = [(i / num_intervals) ** exponent for i in range(num_intervals + 1)]
    # eps of the base, amplified by the exponent, and a few ulps of the power function.
    rtol = (exponent + 4) * np.finfo(np.float32).eps
    np.testing.assert_allclose(powers, expected, rtol=rtol)
    assert powers[0] == 0.0
    assert powers[-1] == 1.0
    assert np.all(np.diff(powers) > 0)


def test_trapezium_weights_are_numpys():
    powers = power_schedule(7, 2.5)
    values = np.cos(np.arange(8.0))
    expected = np.trapezoid(values, np.asarray(powers))
    np.testing.assert_allclose(
        float(jnp.sum(trapezium_weights(powers) * values)), expected, atol=8 * 1.2e-7
    )


ENDS = jnp.zeros(2), jnp.array([0.0, 1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power_schedule(0, 1.0), "num_intervals.*at least 1.*num_intervals=0"),
        (lambda: power_schedule(3, 0.0), "exponent must be positive.*exponent=0.0"),
        (lambda: trapezium_weights(jnp.array([0.0, 0.5, 0.5])), "powers must increase strictly"),
        (lambda: log_evidence(jnp.zeros(3), jnp.array([0.0, 1.0])), r"shape \(2, ...\).*\(3,\)"),
        (lambda: log_evidence(jnp.zeros(2), jnp.array([0.1, 1.0])), "run from 0"),
        (lambda: log_evidence(*ENDS, kl_forward=jnp.zeros(1)), "kl_backward must have .* got None"),
        (lambda: log_evidence(*ENDS, kl_forward=jnp.zeros(2), kl_backward=jnp.zeros(1)),
         r"kl_forward must have one entry per interval, shape \(1,\), got \(2,\)"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_chains_that_remember_the_powers_below_have_the_error_of_their_sums():
    """The same offset of a chain at every power; the weights sum to 1: the offsets' own error."""
    offsets = np.array([0.0, 1.0, 4.0, -3.0])
    log_likelihoods = jnp.array([[-9.0], [-4.0], [-2.0]]) + jnp.float32(offsets)[None]
    estimate = thermodynamic_log_evidence(log_likelihoods, jnp.array([0.0, 0.25, 1.0]))
    want = offsets.std(ddof=1) / np.sqrt(4)
    np.testing.assert_allclose(estimate.standard_error, want, rtol=32 * np.finfo(np.float32).eps)
