"""Every chain of a batch is moved, by the sampler of its kind on the density of its class."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.learning import ANY_CLASS, ChainKind, ChainPlan, run_chains
from ebmjax.samplers import LangevinInfo, Sampler, gradient_descent, pyld, svgd, trace_chain

EPS = np.finfo(np.float32).eps
KEY = jax.random.key(4)


def sloped(label):
    """A density whose score is the chain's label in every coordinate."""
    return lambda x: label * jnp.sum(x)


def accepted(log_density_fn, *, step_size):
    """Gradient descent that reports an acceptance, to which its step can adapt."""
    inner = gradient_descent(log_density_fn, step_size=step_size)

    def step(key, state):
        state, info = inner.step(key, state)
        return state, LangevinInfo(jnp.float32(0.5), jnp.array(True), info.log_density)

    return Sampler(inner.init, step)


STEPS = {"slow": 0.5, "quick": 2.0}


@pytest.mark.parametrize("is_adapted", [False, True])
@pytest.mark.parametrize("others", [(), ("svgd",), ("svgd", "pyld")])
def test_every_chain_of_the_batch_moves_by_its_kind_and_its_class(others, is_adapted):
    """Chains of classes of their own: each ends at its start plus all its steps times its class."""
    kinds = {
        name: ChainKind(sampler=functools.partial(gradient_descent, step_size=size), num_steps=3)
        for name, size in STEPS.items()
    }
    if "svgd" in others:
        sampler = functools.partial(svgd, step_size=0.5)
        kinds["svgd"] = ChainKind(sampler=sampler, num_steps=3, is_interacting=True)
    if "pyld" in others:

        def sampler(log_density_fn):
            return pyld(lambda x: x, log_density_fn, step_size=0.1, num_inner=2, noise_scale=0.0)

        kinds["pyld"] = ChainKind(sampler=sampler, num_steps=3)
    if is_adapted:
        kinds["adapted"] = ChainKind(sampler=accepted, num_steps=3, target_acceptance=0.5)
    x = jax.random.normal(KEY, (2 * len(kinds), 2))
    labels = jnp.arange(1, len(x) + 1)
    given = ChainPlan(
        kinds=kinds, num_samples=len(x), start_fn=lambda key, label: x[0], reinit_prob=0.0
    )
    run = jax.jit(lambda keys: run_chains(keys, sloped, given, x, labels, given.init_adaptation()))
    ends, _, metrics = run(jax.random.split(KEY, len(kinds)))
    per_class = {**STEPS, "pyld": 2 * 0.1, "adapted": 1.0}
    for name, chains in zip(kinds, np.split(np.arange(len(x)), len(kinds)), strict=True):
        if name == "svgd":  # particles belong to no class, and the slope is that of ANY_CLASS
            alone = svgd(sloped(ANY_CLASS), step_size=0.5)
            expected, _ = trace_chain(jnp.arange(3), alone.init(x[chains]), alone.step)
            expected = expected.particles
        else:
            expected = x[chains] + 3 * per_class[name] * labels[chains][:, None]
        # Sums of some ten numbers below 100, one rounding apiece.
        np.testing.assert_allclose(ends[chains], expected, rtol=0, atol=100 * 10 * EPS)
        moved = np.mean(np.square(expected - x[chains]))
        displacement = metrics["displacement" if len(kinds) == 1 else f"{name}_displacement"]
        np.testing.assert_allclose(displacement, moved, rtol=1e-4)
