"""Errors of samplers and drivers for a state, a step or a position of the wrong kind."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import optax
import pytest
from sampler_names import ONE_CHAIN, PARTICLES, with_a_key

from ebmjax import optim, samplers, training
from ebmjax.samplers import batch_step, run_chain


def log_density(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


KEY = jax.random.key(0)


def bound(name, **options):
    if name == "pyld":
        return samplers.pyld(lambda x: x, log_density, step_size=0.1, num_inner=1)
    return with_a_key(getattr(samplers, name)(log_density, **{"step_size": 0.1, **options}))


@pytest.mark.parametrize("name", [*ONE_CHAIN, "pyld"])
def test_states_of_many_chains_need_batch_step(name):
    sampler = bound(name)
    states = jax.vmap(sampler.init)(jnp.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"^state must be that of one chain.*\(3,\).*batch_step"):
        run_chain(KEY, states, sampler.step, 2)


class ForeignState(NamedTuple):
    """A state of another library, whose step checks nothing."""

    position: jax.Array
    logdensity: jax.Array


def test_many_foreign_states_are_pointed_to_batch_step():
    def step(key, state):
        position = state.position + jax.random.normal(key, state.position.shape)
        return ForeignState(position, -0.5 * jnp.sum(position**2)), None

    states = ForeignState(jnp.zeros((3, 2)), jnp.zeros(3))
    with pytest.raises(TypeError) as error:
        run_chain(KEY, states, step, 2)
    assert any("batch_step(step)" in note for note in error.value.__notes__)
    run_chain(KEY, states, batch_step(step), 2)


def test_a_density_that_fails_at_a_start_names_its_shape_and_start_fn():
    """The starts of a buffer have three coordinates, and the model two."""
    start_fn = samplers.gaussian_start((3,))
    buffer = samplers.replay_buffer_init(jax.random.key(0), 4, start_fn)
    sampler = samplers.sgld(lambda x: -jnp.sum(x @ jnp.eye(2)), step_size=0.1)
    with pytest.raises(TypeError, match="dot_general") as error:
        jax.vmap(sampler.init)(buffer.positions)
    assert any("of shape (3,)" in note and "start_fn" in note for note in error.value.__notes__)


def test_a_step_with_swapped_arguments_is_refused():
    state = samplers.sgld(log_density, step_size=0.1).init(jnp.zeros(2))
    with pytest.raises(TypeError, match=r"\(key, state\) -> .*got \['state', 'key'\]"):
        run_chain(jax.random.key(0), state, lambda state, key: (state, ()), 2)


@pytest.mark.parametrize("name", [*ONE_CHAIN, *PARTICLES, "pyld"])
def test_a_position_is_no_state(name):
    position = jnp.zeros((4, 2))
    with pytest.raises(TypeError, match=r"^state must be what the sampler's init.*Array"):
        bound(name).step(KEY, position)
    with pytest.raises(TypeError, match=r"^state must be what the sampler's init"):
        batch_step(bound(name).step)(KEY, position)
    with pytest.raises(TypeError, match=r"^state must be what the sampler's init"):
        run_chain(KEY, position, lambda key, state: (state, None), 2)


def test_a_sampler_is_no_step():
    sampler = bound("sgld")
    state = sampler.init(jnp.zeros(2))
    for drive in (partial(run_chain, KEY, state, num_steps=2), batch_step):
        with pytest.raises(TypeError, match=r"^step must be a function.*Sampler.*sampler\.step"):
            drive(step=sampler)
    with pytest.raises(TypeError, match=r"^step must be a function.*got int"):
        run_chain(KEY, state, 3, 2)


class Module(equinox.Module):
    weight: jax.Array
    activation: Callable[..., Any]


INITS = [
    *(bound(name).init for name in (*ONE_CHAIN, *PARTICLES, "pyld")),
    lambda params: training.init_state(params, optax.sgd(0.1)),
    lambda params: optim.sam_gradients(lambda p: (log_density(p), {}), params, rho=0.1),
    lambda params: optim.average_parameters(0.9).init(params),
]


@pytest.mark.parametrize("init", INITS)
def test_positions_and_parameters_of_the_wrong_kind(init):
    module = Module(jnp.ones((3, 2)), jax.nn.relu)
    with pytest.raises(TypeError, match=r"\.activation must be an array.*equinox\.partition"):
        init(module)
    with pytest.raises(TypeError, match=r"\['a'\] must hold real numbers.*complex64"):
        init({"a": jnp.ones((3, 2), jnp.complex64)})
    with pytest.raises(TypeError, match=r"\['a'\] must hold floating-point numbers.*int32"):
        init({"a": jnp.ones((3, 2), jnp.int32)})
    init(equinox.partition(module, equinox.is_inexact_array)[0])


@pytest.mark.parametrize("name", PARTICLES)
def test_particles_of_one_axis(name):
    with pytest.raises(ValueError, match=r"^particles must have an axis.*\(5,\).*x\[None\]"):
        bound(name).init(jnp.zeros(5))


COMPLEX = [
    *((name, "step_size") for name in (*ONE_CHAIN, *PARTICLES)),
    ("sgld", "noise_scale"),
    ("sgld", "temperature"),
    ("psgld", "decay"),
    ("svgd", "bandwidth"),
]


@pytest.mark.parametrize(("name", "argument"), COMPLEX)
def test_complex_hyperparameters(name, argument):
    def step(value):
        sampler = bound(name, **{argument: value})
        return sampler.step(KEY, sampler.init(jnp.ones((3, 2))))

    for run in (step, partial(jax.eval_shape, step)):  # eval_shape traces the value
        with pytest.raises(TypeError, match=f"^{argument} must hold real numbers.*complex64"):
            run(jnp.complex64(0.1))
