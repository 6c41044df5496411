"""MALA: its rejections, and BlackJAX's MALA as an oracle."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from monte_carlo import assert_mean, assert_moments, run_replicas, stationary_moments
from scipy.special import digamma, polygamma

from ebmjax import densities
from ebmjax.samplers import batch_step, clip_score, mala, mala_init

CONCENTRATION = 1.5
REPLICAS = 20_000
log_gamma = densities.log_gamma(jnp.array(CONCENTRATION)).log_density_fn


def exact_draws(key, temperature=1.0):
    """Independent draws of exp((c x - e^x) / T): see ``tempered_moments``."""
    concentration = CONCENTRATION / temperature
    return jnp.log(temperature * jax.random.gamma(key, concentration, (REPLICAS,)))


def tempered_moments(temperature):
    """exp((c x - e^x) / T) is the density of log(T g) with g a Gamma(c / T) draw."""
    concentration = CONCENTRATION / temperature
    mean = digamma(concentration) + np.log(temperature)
    return float(mean), float(polygamma(1, concentration))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step_size", "noise_scale", "temperature", "limit"),
    [
        (0.8, None, 1.0, None),
        (0.8, 0.7, 1.0, None),  # Langevin noise would be 1.26
        (0.4, 1.6, 1.0, None),  # ... and 0.89
        (0.7, None, 1.7, None),
        (1.0, None, 1.0, 0.5),
    ],
    ids=["langevin", "less_noise", "more_noise", "temperature", "clipped_score"],
)
def test_exact_moments(step_size, noise_scale, temperature, limit):
    """Chains that start in the law stay in it, however long the step."""
    log_density_fn = clip_score(log_gamma, limit) if limit else log_gamma
    sampler = mala(
        log_density_fn, step_size=step_size, noise_scale=noise_scale, temperature=temperature
    )
    start_key, key = jax.random.split(jax.random.key(0))
    draws, infos = run_replicas(key, sampler, exact_draws(start_key, temperature), 25)
    mean, variance = tempered_moments(temperature)
    assert_moments(draws, mean, variance)
    acceptance = np.mean(infos.acceptance_prob)
    assert 0.4 < acceptance < 0.95
    assert_mean(infos.is_accepted, acceptance)  # the coin has the probability that is reported

    grid = np.linspace(-12.0, 4.0, 1201)
    bound = limit or np.inf
    unadjusted = stationary_moments(
        lambda x: step_size * np.clip(CONCENTRATION - np.exp(x), -bound, bound),
        lambda _: noise_scale or np.sqrt(2 * step_size * temperature),
        grid,
    )
    bias = abs(unadjusted[1] - variance) + abs(unadjusted[0] - mean)
    assert bias > 10 * np.sqrt(variance / REPLICAS)


def cliff(value_beyond):
    """Normal below zero; log density ``value_beyond`` above."""
    return lambda x: jnp.where(x > 0, value_beyond, -0.5 * x**2)


def broken_gradient(x):
    """Normal; above zero the log density is finite and its gradient NaN."""
    return -0.5 * x**2 + jnp.sqrt(jnp.where(x > 0, 0.0 * x, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "log_density_fn",
    [cliff(jnp.nan), cliff(jnp.inf), cliff(-jnp.inf), broken_gradient],
    ids=["nan", "plus_infinity", "minus_infinity", "nan_score"],
)
def test_non_finite_proposals_are_rejected(log_density_fn):
    """The half-normal law is left: mean -sqrt(2/pi), mean square 1, exactly."""
    sampler = mala(log_density_fn, step_size=0.4)
    half_normal = -jnp.abs(jax.random.normal(jax.random.key(2), (REPLICAS,)))
    draws, _ = run_replicas(jax.random.key(3), sampler, half_normal, 15)
    assert np.all(draws < 0)
    assert_mean(draws, -np.sqrt(2 / np.pi))
    assert_mean(np.asarray(draws, np.float64) ** 2, 1.0)

    states = jax.vmap(sampler.init)(jnp.full(200, -0.01))
    after, infos = jax.jit(batch_step(sampler.step))(jax.random.key(4), states)
    assert 20 < np.sum(infos.is_accepted) < 180
    for leaf in jax.tree.leaves((after, infos)):
        assert np.all(np.isfinite(leaf))


def test_blackjax_walks_the_same_path(monkeypatch):
    """Same convention (drift eps s, noise sqrt(2 eps)), same two keys: with the noise drawn the
    same way every step agrees to rounding, acceptance probability and decision included."""
    monkeypatch.setattr(optax.tree, "random_like", blackjax.util.generate_gaussian_noise)
    with jax.enable_x64(True):
        target = densities.log_gamma(jnp.array([0.7, 1.5, 3.0])).log_density_fn
        theirs = blackjax.mala(target, step_size=0.6)
        their_step, our_step = jax.jit(theirs.step), jax.jit(mala(target, step_size=0.6).step)
        ours, other = mala_init(jnp.zeros(3), target), theirs.init(jnp.zeros(3))
        decisions = []
        for key in jax.random.split(jax.random.key(5), 50):
            ours, info = our_step(key, ours)
            other, other_info = their_step(key, other)
            # Rounding of 1e-16 a step, over 50 steps of a map that expands by at most about 10.
            np.testing.assert_allclose(ours.position, other.position, atol=1e-10)
            np.testing.assert_allclose(info.acceptance_prob, other_info.acceptance_rate, atol=1e-10)
            assert info.is_accepted == other_info.is_accepted
            decisions.append(bool(info.is_accepted))
        assert 10 < sum(decisions) < 50
