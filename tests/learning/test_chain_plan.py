"""Negative samples: what their chains cost, follow and report, and what the buffer keeps."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from joint_problems import (
    EPS,
    kind,
    negatives,
)

from ebmjax.learning import (
    ANY_CLASS,
    profile_chains,
    run_chains,
)
from ebmjax.samplers import mala, sgld, svgd

KEY = jax.random.key(4)


def starts(num_chains=6, dim=2, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(num_chains, dim)), jnp.float32)


def normal_density(label):
    """N(0, 1) in each coordinate, whatever the class."""
    del label
    return lambda x: -0.5 * jnp.sum(x**2)


def chains(sampler, *, num_steps=3, density=normal_density, x=None, labels=None, **options):
    """(ends, metrics) of ``run_chains``."""
    x = starts() if x is None else x
    labels = jnp.zeros(len(x), jnp.int32) if labels is None else labels
    given = negatives(sampler=sampler, num_steps=num_steps, num_samples=len(x), **options)
    run = jax.jit(lambda key: run_chains(key, density, given, x, labels))
    ends, adaptation, metrics = run(KEY)
    assert adaptation == {}
    return ends, metrics


def by_plain_loop(sampler, num_steps, x):
    """Positions after each step, chain by chain, with the keys of ``run_chains``."""
    bound = sampler(normal_density(0))
    step = jax.jit(bound.step)
    states = [bound.init(start) for start in x]
    positions = [np.asarray(x)]
    for key in jax.random.split(KEY, num_steps):
        chain_keys = jax.random.split(key, len(x))
        states = [step(k, state)[0] for k, state in zip(chain_keys, states, strict=True)]
        positions.append(np.stack([state.position for state in states]))
    return np.stack(positions)


def hmc(density):
    return blackjax.hmc(
        density, step_size=0.3, inverse_mass_matrix=jnp.ones(2), num_integration_steps=2
    )


# Positions below 5 through 3 steps of some ten operations each, one rounding apiece.
ATOL = 3 * 10 * 5 * EPS


@pytest.mark.parametrize(
    "sampler",
    [functools.partial(sgld, step_size=0.1), functools.partial(mala, step_size=0.5), hmc],
    ids=["sgld", "mala", "blackjax_hmc"],
)
def test_the_trajectory_is_that_of_a_plain_loop(sampler):
    ends, metrics = chains(sampler)
    positions = by_plain_loop(sampler, 3, starts())
    np.testing.assert_allclose(ends, positions[-1], rtol=0, atol=ATOL)
    travelled = np.mean((positions[-1] - positions[0]) ** 2)
    np.testing.assert_allclose(metrics["displacement"], travelled, atol=2 * 5 * ATOL)
    assert 0 < metrics["acceptance_prob"] <= 1


@pytest.mark.parametrize("sampler", [functools.partial(sgld, step_size=0.1), hmc])
def test_a_profile_is_of_the_same_chains_step_by_step(sampler):
    x, labels = starts(), jnp.zeros(6, jnp.int32)
    given = kind({"sampler": sampler, "num_steps": 3})
    profile = jax.jit(lambda key: profile_chains(key, normal_density, given, x, labels))(KEY)
    positions = by_plain_loop(sampler, 3, x)
    travelled = np.mean((positions[1:] - positions[0]) ** 2, axis=(1, 2))
    np.testing.assert_allclose(profile["displacement"], travelled, atol=2 * 5 * ATOL)
    _, metrics = chains(sampler)
    acceptance = np.mean(profile["acceptance_prob"][:-1])
    np.testing.assert_allclose(acceptance, metrics["acceptance_prob"], atol=ATOL)
    if sampler is not hmc:  # whose moves report no density
        densities = np.mean(-0.5 * np.sum(positions[1:] ** 2, axis=2), axis=1)
        np.testing.assert_allclose(profile["log_density"], densities, atol=2 * 2 * 5 * ATOL)
        norms = np.mean(np.linalg.norm(positions[1:], axis=2), axis=1)  # the score is -x
        np.testing.assert_allclose(profile["score_norm"], norms, atol=2 * ATOL)


@pytest.mark.parametrize(
    ("sampler", "is_interacting", "num_steps", "num_gradients"),
    [
        (functools.partial(sgld, step_size=0.1), False, 5, 5),  # the start's, but no last one
        (functools.partial(sgld, step_size=0.1), False, 1, 2),  # to report its acceptance
        (functools.partial(mala, step_size=0.1), False, 5, 6),  # the last proposal's is needed
        (functools.partial(svgd, step_size=0.1), True, 5, 5),
    ],
    ids=["sgld", "sgld_one_step", "mala", "svgd"],
)
def test_k_steps_cost_k_gradients(sampler, is_interacting, num_steps, num_gradients):
    given = negatives(
        sampler=sampler, num_steps=num_steps, num_samples=3, is_interacting=is_interacting
    )
    evaluations = []

    def seen(x):
        evaluations.append(x.shape)
        return x

    def density(label):
        del label

        def log_density(x):
            # All chains in one call, which the compiler leaves out where nothing needs its result.
            constant = jax.lax.stop_gradient(x)
            return -jnp.sum(x * jax.pure_callback(seen, x, constant, vmap_method="expand_dims"))

        return log_density

    run = jax.jit(lambda key, x: run_chains(key, density, given, x, jnp.zeros(3, jnp.int32)))
    jax.block_until_ready(run(KEY, starts(3, 7)))
    assert len(evaluations) == num_gradients


@pytest.mark.parametrize("num_steps", [1, 4])
def test_the_acceptance_of_langevin_moves_on_a_gaussian_is_the_closed_form(num_steps):
    # On N(0, 1) a move from x to y is accepted with min(1, exp(-(e / 4) (|y|^2 - |x|^2))).
    step_size = 0.8
    sampler = functools.partial(sgld, step_size=step_size)
    _, metrics = chains(sampler, num_steps=num_steps)
    squares = np.sum(by_plain_loop(sampler, num_steps, starts()) ** 2, axis=-1)
    accepted = np.minimum(1, np.exp(-0.25 * step_size * np.diff(squares, axis=0)))
    reported = accepted if num_steps == 1 else accepted[:-1]  # of the steps before the last
    assert reported.mean() < 0.95
    # Squares of up to 50, hence exponents with 50 times the error of a position.
    np.testing.assert_allclose(metrics["acceptance_prob"], reported.mean(), atol=50 * ATOL)


def test_interacting_samples_move_together():
    sampler = functools.partial(svgd, step_size=0.5, bandwidth=1.0)
    ends, metrics = chains(sampler, is_interacting=True)
    # The system belongs to no class.
    centred = lambda label: lambda x: -0.5 * jnp.sum((x - label) ** 2)  # noqa: E731
    told, _ = chains(sampler, is_interacting=True, density=centred)
    asked, _ = chains(sampler, is_interacting=True, density=lambda label: centred(ANY_CLASS))
    np.testing.assert_allclose(told, asked, rtol=0, atol=ATOL)
    bound = sampler(normal_density(0))
    state, norms = bound.init(starts()), []
    move = jax.jit(bound.step)
    for key in jax.random.split(KEY, 3):
        state, info = move(key, state)
        norms.append(float(info.direction_norm))
    np.testing.assert_allclose(ends, state.particles, rtol=0, atol=ATOL)
    np.testing.assert_allclose(metrics["direction_norm"], np.mean(norms[:2]), atol=ATOL)
    assert metrics["bandwidth"] == 1.0
    moved, _ = chains(sampler, is_interacting=True, x=starts().at[0].add(0.3))
    assert np.all(np.abs(moved - ends)[1:].max(axis=1) > 1e-3)
