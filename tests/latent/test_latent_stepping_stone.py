"""Weights, stepping stones and thermodynamic sums with errors, on exact draws of Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL, OBSERVATIONS, make_params
from scipy import special

from ebmjax.evidence import stepping_stone_log_evidence, thermodynamic_log_evidence
from ebmjax.evidence._weights import log_mean_exp, weight_sample_size
from ebmjax.latent import log_evidence, log_likelihood, power_schedule

PARAMS, X = make_params(), jnp.asarray(OBSERVATIONS[0], jnp.float32)
POWERS = power_schedule(5, 3.0)
REPEATS, CHAINS = 400, 200


@pytest.fixture(scope="module")
def log_likelihoods():
    """Independent exact draws of every power posterior, (repeats, powers, chains)."""
    return exact_draws(memory=0.0)


def exact_draws(memory):
    """Draws of every power; a chain shares ``memory`` of its noise's variance along the powers."""
    mean, covariance = jax.vmap(lambda t: MODEL.power_posterior(PARAMS, X, t))(POWERS)

    @jax.jit
    def draw(key):
        own, common = jax.random.normal(key, (2, REPEATS, len(POWERS), CHAINS, 2))
        noise = jnp.sqrt(1 - memory) * own + jnp.sqrt(memory) * common[:, :1]
        factor = jnp.linalg.cholesky(covariance)
        z = mean[None, :, None] + jnp.einsum("tij,rtnj->rtni", factor, noise)
        flat = jax.vmap(lambda z: log_likelihood(PARAMS, MODEL, z, X))(z.reshape(-1, 2))
        return flat.reshape(z.shape[:-1])

    return draw(jax.random.key(0))


def assert_honest(estimates, exact):
    """The mean of the repeats is exact, and the error they report is their spread.

    The mean is held to 5 of its standard errors, and half of se^2 for the log's own bias, exact to
    first order and doubled here for what follows. The spread of R repeats is known to
    1 / sqrt(2 (R - 1)), 3.5 % of it; again 5 of those.
    """
    values = np.asarray(estimates.value, np.float64)
    errors = np.asarray(estimates.standard_error, np.float64)
    spread = values.std(ddof=1)
    tolerance = 5 * spread / np.sqrt(len(values)) + spread**2
    assert abs(values.mean() - exact) < tolerance
    typical = np.sqrt(np.mean(errors**2))
    assert abs(typical / spread - 1) < 5 / np.sqrt(2 * (len(values) - 1))


def test_stepping_stones_are_exact_and_know_their_error(log_likelihoods):
    estimates = jax.jit(jax.vmap(lambda l: stepping_stone_log_evidence(l, POWERS)))(log_likelihoods)
    assert_honest(estimates, float(MODEL.log_evidence(PARAMS, X)))


@pytest.mark.parametrize(
    "estimator", [stepping_stone_log_evidence, thermodynamic_log_evidence], ids=["stones", "sum"]
)
def test_chains_that_remember_the_power_below_know_their_error(estimator):
    """Annealed chains remember too. Errors that add up power by power are half the spread."""
    estimates = jax.jit(jax.vmap(lambda l: estimator(l, POWERS)))(exact_draws(memory=0.9))
    terms = MODEL.terms(PARAMS, X, POWERS)
    exact = {
        stepping_stone_log_evidence: MODEL.log_evidence(PARAMS, X),
        thermodynamic_log_evidence: log_evidence(terms["mean_log_likelihoods"], POWERS),
    }
    assert_honest(estimates, float(exact[estimator]))


def test_stepping_stones_by_hand(log_likelihoods):
    """Rung i is weighed by the interval above it; the top rung is not used."""
    draws, powers = np.asarray(log_likelihoods[0], np.float64), np.asarray(POWERS, np.float64)
    total = sum(
        special.logsumexp((powers[i + 1] - powers[i]) * draws[i]) - np.log(CHAINS)
        for i in range(len(powers) - 1)
    )
    estimate = stepping_stone_log_evidence(log_likelihoods[0], POWERS)
    # Six sums of numbers of size |total| and below, in float32.
    np.testing.assert_allclose(estimate.value, total, rtol=20 * np.finfo(np.float32).eps)
    changed = log_likelihoods[0].at[-1].set(jnp.nan)
    assert stepping_stone_log_evidence(changed, POWERS).value == estimate.value


def test_thermodynamic_sum_is_the_trapezium_rule_and_knows_its_error(log_likelihoods):
    terms = MODEL.terms(PARAMS, X, POWERS)
    estimates = jax.jit(jax.vmap(lambda l: thermodynamic_log_evidence(l, POWERS)))(log_likelihoods)
    assert_honest(estimates, float(log_evidence(terms["mean_log_likelihoods"], POWERS)))
    kls = {name: terms[name] for name in ("kl_forward", "kl_backward")}
    corrected = jax.vmap(lambda l: thermodynamic_log_evidence(l, POWERS, **kls))(log_likelihoods)
    assert_honest(corrected, float(MODEL.log_evidence(PARAMS, X)))
    doubled = thermodynamic_log_evidence(log_likelihoods[0], POWERS, **kls, kl_weight=2.0)
    np.testing.assert_allclose(
        doubled.value - corrected.value[0],
        corrected.value[0] - estimates.value[0],
        atol=8 * np.finfo(np.float32).eps * abs(float(doubled.value)),
    )


def test_trailing_axes_are_kept(log_likelihoods):
    """Each observation on its own: (powers, chains, 2) is two problems of (powers, chains)."""
    pair = jnp.stack([log_likelihoods[0], 2.0 * log_likelihoods[1]], axis=-1)
    for estimator in (stepping_stone_log_evidence, thermodynamic_log_evidence):
        both = estimator(pair, POWERS)
        for j in range(2):
            alone = estimator(pair[..., j], POWERS)
            np.testing.assert_allclose(both.value[j], alone.value, rtol=1e-6)
            np.testing.assert_allclose(both.standard_error[j], alone.standard_error, rtol=1e-5)


def test_log_mean_exp_is_scipys_and_survives_large_numbers():
    log_weights = np.random.default_rng(0).normal(size=(7, 2))
    weights = np.exp(log_weights)
    value = special.logsumexp(log_weights, axis=0) - np.log(7)
    error = weights.std(axis=0, ddof=1) / weights.mean(axis=0) / np.sqrt(7)
    for shift in (0.0, 3000.0, -3000.0):
        estimate = log_mean_exp(jnp.asarray(log_weights + shift, jnp.float32))
        # A number of size |shift| is rounded before its exponential is taken.
        atol = 8 * np.finfo(np.float32).eps * (1 + abs(shift))
        np.testing.assert_allclose(estimate.value, value + shift, rtol=0, atol=atol)
        np.testing.assert_allclose(estimate.standard_error, error, rtol=0, atol=4 * atol)


def test_weight_sample_size():
    """Weights 1 and 3: 16 / 10; shifted by a constant, each column by its own, the same."""
    log_weights = jnp.log(jnp.array([[1.0, 1.0], [3.0, 1.0]]))
    for shift in (0.0, 100.0, jnp.array([[200.0, -200.0]])):
        np.testing.assert_allclose(weight_sample_size(log_weights + shift), [1.6, 2.0], rtol=1e-4)


ENDS = jnp.array([0.0, 1.0])


@pytest.mark.parametrize("estimator", [stepping_stone_log_evidence, thermodynamic_log_evidence])
@pytest.mark.parametrize(
    ("shape", "powers", "message"),
    [
        ((2,), ENDS, r"at least two chains for every power, shape \(2, chains, ...\).*\(2,\)"),
        ((3, 4), ENDS, r"shape \(2, chains, ...\), got \(3, 4\)"),
        ((2, 1), ENDS, "at least two chains"),
        ((2, 4), jnp.array([0.1, 1.0]), "run from 0"),
    ],
)
def test_bad_chains_are_refused(estimator, shape, powers, message):
    with pytest.raises(ValueError, match=message):
        estimator(jnp.zeros(shape), powers)


@pytest.mark.parametrize("shape", [(), (1,), (1, 5)])
def test_one_weight_is_refused(shape):
    with pytest.raises(ValueError, match="at least n = 2"):
        log_mean_exp(jnp.zeros(shape))
