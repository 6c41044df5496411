"""Underdamped Langevin dynamics: its splitting by hand, its law, and where its velocity starts."""

from functools import partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from monte_carlo import RUNS_LONG, assert_moments

from ebmjax import samplers

CHAINS = 20_000


def run(sampler, positions, num_steps):
    """Final states of independent chains, by ``run_chain``."""

    @partial(jax.jit, compiler_options=RUNS_LONG)
    def drive(key, states):
        step = samplers.batch_step(sampler.step)
        return samplers.run_chain(key, states, step, num_steps, burn_in=num_steps)[0]

    return drive(jax.random.key(1), samplers.start_chains(jax.random.key(0), sampler, positions))


def test_a_step_by_hand():
    """Kick, drift, refresh, drift, kick, in numpy and float64, on an asymmetric density."""
    step_size, friction, temperature = 0.3, 0.7, 0.6
    x, v = np.array([-0.4, 0.9]), np.array([0.5, -1.1])
    options = {"step_size": step_size, "friction": friction, "temperature": temperature}

    def score(x):
        return 1.5 - np.exp(x)

    with jax.enable_x64(True):

        def log_density(x):
            return jnp.sum(1.5 * x - jnp.exp(x))

        key = jax.random.key(5)
        state = samplers.underdamped_langevin_init(key, jnp.asarray(x), log_density)
        state = state._replace(velocity=jnp.asarray(v))
        found, info = samplers.underdamped_langevin_step(key, state, log_density, **options)
        # The noise is what the step adds to a velocity of 0 where nothing pulls.
        flat = samplers.underdamped_langevin(lambda x: 0.0 * jnp.sum(x), **options)
        at_rest = flat.init(jnp.zeros(2), key)._replace(velocity=jnp.zeros(2))
        noise = np.asarray(flat.step(key, at_rest)[0].velocity)
        drawn = np.asarray(optax.tree.random_like(key, jnp.zeros(2), jax.random.normal))
    time = np.sqrt(2 * step_size)
    kept = np.exp(-friction * time)
    np.testing.assert_allclose(noise, np.sqrt((1 - kept**2) * temperature) * drawn, rtol=1e-12)
    v = v + time / 2 * score(x)
    x = x + time / 2 * v
    v = kept * v + noise
    x = x + time / 2 * v
    v = v + time / 2 * score(x)
    np.testing.assert_allclose(found.position, x, rtol=1e-12)
    np.testing.assert_allclose(found.velocity, v, rtol=1e-12)
    np.testing.assert_allclose(found.score, score(x), rtol=1e-12)
    np.testing.assert_allclose(info.log_density, np.sum(1.5 * x - np.exp(x)), rtol=1e-12)


@pytest.mark.parametrize(
    ("step_size", "friction", "temperature"), [(0.5, 1.0, 1.0), (2.0, 0.5, 0.7), (3.0, 2.0, 0.7)]
)
def test_the_law_on_a_gaussian_is_exact_at_any_stable_step(step_size, friction, temperature):
    """N(1, v) at T: positions N(1, v T) at every step; velocities T (1 - step / 2v).

    Both follow from the discrete Lyapunov equation of the linear step. 60 steps at rates of
    friction x time of at least 0.35 (half of it, where the velocity swings) leave e^-10.
    """
    variance = 2.0
    options = {"step_size": step_size, "friction": friction, "temperature": temperature}
    sampler = samplers.underdamped_langevin(lambda x: -0.5 * (x - 1.0) ** 2 / variance, **options)
    final = run(sampler, jnp.zeros(CHAINS), 60)
    assert_moments(final.position, 1.0, variance * temperature)
    assert_moments(final.velocity, 0.0, temperature * (1 - step_size / (2 * variance)))
    assert_moments((final.position - 1.0) * final.velocity, *product_moments(final))


def product_moments(final):
    """Position and velocity are independent: the mean 0 and the product of the variances."""
    return 0.0, float(jnp.mean(jnp.square(final.position - 1.0)) * jnp.var(final.velocity))


def test_a_start_without_a_key_is_refused():
    """At rest, or with one velocity for all, chains would silently start from another law."""
    sampler = samplers.underdamped_langevin(lambda x: -0.5 * x**2, step_size=0.1)
    with pytest.raises(TypeError, match=r"^init of this sampler draws.*init\(position, key\)"):
        sampler.init(1.0)


def test_start_chain_gives_a_key_to_those_that_take_one():
    """BlackJAX's, ours, and a sampler of one argument; and a key that no step of the chain has."""

    def normal(x):
        return -0.5 * jnp.sum(x**2)

    key, position = jax.random.key(3), jnp.ones(2)
    ghmc = blackjax.ghmc(normal, 0.1, momentum_inverse_scale=jnp.ones(2), alpha=0.3, delta=0.1)
    others = [samplers.start_chain(key, ghmc, position) for key in jax.random.split(key)]
    assert not np.array_equal(others[0].momentum, others[1].momentum)
    bare = samplers.mala(normal, step_size=0.1)
    alone = bare._replace(init=lambda position: bare.init(position))
    for sampler in (samplers.sgld(normal, step_size=0.1), bare, alone, blackjax.mala(normal, 0.1)):
        np.testing.assert_array_equal(
            samplers.start_chain(key, sampler, position).position, position
        )
    sampler = samplers.underdamped_langevin(normal, step_size=0.1)
    velocity = sampler.init(position, samplers.start_key(key)).velocity
    for number in range(100):
        other = sampler.init(position, jax.random.fold_in(key, number)).velocity
        assert not np.array_equal(velocity, other)
