"""The comparison with BlackJAX: both do the same work, and every row is printed."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEPS = 50


@pytest.fixture
def module(load):
    return load("peers")


@pytest.fixture
def log_density_fn():
    """A Gaussian so narrow that the benchmark's step takes a chain across it."""
    return lambda x: -0.5 * jnp.sum((x / 0.1) ** 2)


def test_svgd_takes_the_same_steps(module, log_density_fn):
    start = jax.random.normal(jax.random.key(0), (8, 3))
    (ours, theirs) = (
        module.compile_chain(made["svgd"](log_density_fn), start, STEPS, True)()
        for made in (module.SAMPLERS, module.PEERS)
    )
    assert np.max(np.abs(ours.particles - start)) > 0.1
    np.testing.assert_allclose(ours.particles, theirs.particles, rtol=1e-4)  # 50 roundings


@pytest.mark.parametrize("name", ["sgld", "mala"])
def test_both_sample_the_same_law(name, module, log_density_fn):
    """After 50 steps of 1e-3 in a Gaussian of variance 0.01, 4000 chains from a point."""
    num_chains = 4000
    start = jnp.full((num_chains, 1), 0.3)
    moments = []
    for made in (module.SAMPLERS, module.PEERS):
        last = module.compile_chain(made[name](log_density_fn), start, STEPS, name == "svgd")()
        position = np.asarray(last.position)
        moments.append((position.mean(), position.var()))
    (our_mean, our_variance), (their_mean, their_variance) = moments
    # 5 standard errors of the difference of two means, and of two variances, of Gaussians.
    variance = max(our_variance, their_variance)
    assert abs(our_mean - their_mean) < 5 * np.sqrt(2 * variance / num_chains)
    assert abs(our_variance - their_variance) < 5 * variance * np.sqrt(4 / num_chains)


def test_the_ratio_is_theirs_over_ours(module, monkeypatch):
    program, _ = module.harness.compile_program(jnp.sum, jnp.ones(2))
    work = module.Work("work", SimpleNamespace(program=program), {"peer": lambda: 6.0}, {})
    monkeypatch.setattr(module.harness, "seconds", lambda chain: 2.0)
    (row,) = module.measure(work, 3)
    assert (row["ours ms"], row["theirs ms"]) == (2000.0, 6000.0)
    assert row["ratio"] == (3.0, 3.0, 3.0)
