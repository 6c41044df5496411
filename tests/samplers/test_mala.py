"""MALA: its rejections, and BlackJAX's MALA as an oracle."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean, run_replicas

from ebmjax import densities
from ebmjax.samplers import batch_step, mala

REPLICAS = 20_000


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
    from ebmjax.samplers import _langevin

    monkeypatch.setattr(_langevin, "standard_normal_like", blackjax.util.generate_gaussian_noise)
    with jax.enable_x64(True):
        target = densities.log_gamma(jnp.array([0.7, 1.5, 3.0])).log_density_fn
        theirs = blackjax.mala(target, step_size=0.6)
        their_step, our_step = jax.jit(theirs.step), jax.jit(mala(target, step_size=0.6).step)
        ours, other = mala.init(jnp.zeros(3), target), theirs.init(jnp.zeros(3))
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
