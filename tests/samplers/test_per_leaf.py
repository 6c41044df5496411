"""A PyTree of step sizes and noise scales for a PyTree of positions: one entry a leaf."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import pytest
from sampler_names import with_a_key

from ebmjax import samplers
from ebmjax.samplers import clip_drift, reflect, schedule

FORMS = {
    "gradient_descent": samplers.gradient_descent, "sgld": samplers.sgld,
    "sgld_free_noise": partial(samplers.sgld, noise_scale={"a": 0.3, "b": jnp.array([0.1, 0.2])}),
    "psgld": partial(samplers.psgld, damping=0.5),
    "psgld_curvature": partial(samplers.psgld, damping=0.5, curvature_drift=True),
    "mala": samplers.mala, "tempered_mala": samplers.tempered_mala,
    "hmc": partial(samplers.hmc, num_integration_steps=2),
    "underdamped_langevin": lambda f, **o: with_a_key(samplers.underdamped_langevin(f, **o)),
    "pyld": partial(partial(samplers.pyld, lambda x: x), num_inner=2, outer_step_size=0.1),
    "clip_drift": clip_drift(samplers.sgld, 0.2), "schedule": schedule(samplers.mala),
    "reflect": reflect(samplers.sgld, -1.0, 1.0),
}  # fmt: skip
POSITION = {"a": jnp.float32(0.4), "b": jnp.array([-0.3, 0.2])}
STEPS = {"a": 0.02, "b": jnp.array([0.1, 0.3])}


def log_density(x):
    return sum(jnp.sum(1.5 * leaf - jnp.exp(leaf)) for leaf in jax.tree.leaves(x))


@pytest.mark.parametrize("form", FORMS)
def test_a_step_for_each_leaf(form):
    """Each leaf moves as under its own step alone; equal entries are the same as one number."""
    key = jax.random.key(0)

    @jax.jit
    def step(step_size):
        sampler = FORMS[form](log_density, step_size=step_size)
        state, info = sampler.step(key, sampler.init(POSITION))
        return samplers.position_of(state), info

    moved, _ = step({"a": 0.02, "b": jnp.array([0.1, 0.3])})
    # To the rounding of terms of size 1. No move is rejected, so that leaves do not interact.
    assert moved["a"] != POSITION["a"]
    chex.assert_trees_all_close(moved["a"], step(0.02)[0]["a"], rtol=1e-6, atol=1e-6)
    first, second = (step(size)[0]["b"] for size in (0.1, 0.3))
    chex.assert_trees_all_close(moved["b"], jnp.stack([first[0], second[1]]), rtol=1e-6, atol=1e-6)
    chex.assert_trees_all_close(step({"a": 0.1, "b": 0.1}), step(0.1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["gradient_descent", "sgld", "psgld", "mala", "tempered_mala"])
def test_step_sizes_that_do_not_fit(name):
    for steps, message in (
        ({"a": 0.1}, r"^step_size must be a scalar, an array or a PyTree with the structure"),
        ([0.1, 0.2], r"^step_size must be a scalar, an array or a PyTree with the structure"),
        ({"a": 0.1, "b": jnp.full(3, 0.1)}, r"^step_size\['b'\] must.*position\['b'\], \(2,\)"),
        ({"a": 0.0, "b": 0.1}, r"^step_size\['a'\] must be positive and finite"),
    ):
        sampler = getattr(samplers, name)(log_density, step_size=steps)
        with pytest.raises(ValueError, match=message):
            sampler.step(jax.random.key(0), sampler.init(POSITION))


@pytest.mark.parametrize("temperature", [0.5, 1])
@pytest.mark.parametrize("name", ["sgld", "psgld"])
def test_noise_and_temperature_together(name, temperature):
    """The noise would win and the temperature change nothing; T = 1 is a temperature, too."""
    both = {"step_size": 0.1, "noise_scale": 0.2, "temperature": temperature}
    state = getattr(samplers, f"{name}_init")(POSITION, log_density)
    with pytest.raises(ValueError, match=r"^noise_scale and temperature must not be"):
        getattr(samplers, f"{name}_step")(jax.random.key(0), state, log_density, **both)
