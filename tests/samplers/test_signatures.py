"""Every public sampler by its signature: what each option takes is what its range says."""

import inspect
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_names import NAMES, ONE_CHAIN, PARTICLES, with_a_key

from ebmjax import samplers
from ebmjax._checks import check_positive
from ebmjax._ranges import Range
from ebmjax.samplers import batch_step, clamp, clip_drift, clip_score, reflect, run_chain

KEY, POSITION = jax.random.key(0), jnp.ones((3, 2))
STATIC = {"powers", "sampler", "log_base_fn", "base", "axis_name", "low", "high"}
"""Options that are no number or name, or that take infinite ends: no range describes them."""


def log_density(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


def bound(name, density=log_density, **options):
    given = {"step_size": 0.1, **options}
    if name == "pyld":
        return samplers.pyld(lambda x: x, density, **{"num_inner": 1, **given})
    return with_a_key(getattr(samplers, name)(density, **given))


@cache
def state_of(name):
    return bound(name).init(POSITION)


def run(name, **options):
    """Traces a step; and starts a chain, where that reads the options."""
    sampler = bound(name, **options)
    if set(options) & {"temperature", "powers"}:
        jax.eval_shape(sampler.init, POSITION)
    return jax.eval_shape(sampler.step, KEY, state_of(name))


OPTIONS = {
    (name, one.name): next(
        (part for part in typing.get_args(one.annotation) if isinstance(part, Range)), None
    )
    for name in NAMES
    for one in inspect.signature(getattr(samplers, name)).parameters.values()
    if one.kind is one.KEYWORD_ONLY
}
RANGED = {key: values for key, values in OPTIONS.items() if values is not None}
NUMBERS = [key for key, values in RANGED.items() if values.kind is float]
SHAPED = {"step_size", "noise_scale", "temperature", "friction", "langevin_weight"}
HOSTILE = [-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, jnp.nan, jnp.inf, -jnp.inf, 0, 1, 2, "0.1", [None]]

every_range = pytest.mark.parametrize(("name", "option"), RANGED)


def test_every_option_has_a_range_and_a_line_of_text():
    assert {option for (_, option), values in OPTIONS.items() if values is None} == STATIC
    for name, option in OPTIONS:
        if option not in STATIC:
            text = inspect.getdoc(getattr(samplers, name))
            assert f"\n  {option}: " in str(text), (name, option)


@every_range
def test_an_option_takes_what_its_range_says(name, option):
    """Concrete values are checked while tracing, too, and a refusal names the option."""
    values = RANGED[name, option]
    for value in [*HOSTILE, *values.examples]:
        is_whole = values.kind is int and isinstance(value, float) and value.is_integer()
        if values.refusal(value) is None:
            run(name, **{option: value})
        elif not is_whole:  # some whole numbers are floats
            with pytest.raises((ValueError, TypeError), match=rf"^{option} must "):
                run(name, **{option: value})
    if values.may_be_none and name != "parallel_tempering":  # whose MALA then has no step
        run(name, **{option: None})


@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_numbers_of_another_kind_or_shape(name, option):
    """Shapes and types are known inside jit too, where values are not."""
    cases = [(jnp.complex64(0.1), TypeError, "must hold real numbers.*complex64")]
    if option in SHAPED:
        cases.append((jnp.ones((3, 1, 5)), ValueError, r"must be .*got shape \(3, 1, 5\)"))
    for value, error, message in cases:
        for step in (
            lambda value=value: run(name, **{option: value}),
            lambda value=value: jax.eval_shape(lambda v: run(name, **{option: v}), value),
        ):
            with pytest.raises(error, match=rf"^{option} {message}"):
                step()


def test_unknown_and_missing_options_are_refused():
    with pytest.raises(TypeError, match="stepsize"):
        samplers.mala(log_density, step_size=0.1, stepsize=0.1)
    with pytest.raises(TypeError, match="step_size"):
        samplers.mala(log_density)


every_sampler = pytest.mark.parametrize("name", NAMES)


@every_sampler
def test_traced_numbers_are_not_looked_at_and_whole_ones_act_as_floats(name):
    jax.eval_shape(lambda step_size: run(name, step_size=step_size), 0.0)
    state, _ = run(name, step_size=1)
    assert samplers.position_of(state).dtype == POSITION.dtype


class Module(equinox.Module):
    weight: jax.Array
    activation: Callable[..., Any]


@every_sampler
def test_positions_of_the_wrong_kind(name):
    init = bound(name).init
    module = Module(POSITION, jax.nn.relu)
    for position, error, message in (
        (module, TypeError, r"\.activation must be an array.*equinox\.partition"),
        (
            {"a": POSITION.astype(jnp.complex64)},
            TypeError,
            r"\['a'\] must hold .*complex64.*real part",
        ),
        ({"a": jnp.ones((3, 2), jnp.int32)}, TypeError, r"\['a'\] must hold floating-point"),
        ({}, ValueError, "holds no arrays"),
        (None, ValueError, "holds no arrays"),
    ):
        with pytest.raises(error, match=message):
            init(position)
    init(equinox.partition(module, equinox.is_inexact_array)[0])


@every_sampler
def test_a_log_density_that_is_no_scalar(name):
    for density in (lambda x: x, lambda x: (jnp.sum(x), x)):
        sampler = bound(name, density)
        with pytest.raises(ValueError, match=r"^(log_density_fn|head_fn) must return a scalar"):
            sampler.step(KEY, sampler.init(POSITION))


@every_sampler
def test_a_position_is_no_state(name):
    for step in (bound(name).step, batch_step(bound(name).step)):
        with pytest.raises(TypeError, match=r"^state must be what the sampler's init"):
            step(KEY, POSITION)


@pytest.mark.parametrize("name", [*ONE_CHAIN, "pyld"])
def test_states_of_many_chains_need_batch_step(name):
    sampler = bound(name)
    states = jax.vmap(sampler.init)(POSITION)
    with pytest.raises(ValueError, match=r"^state must be that of one chain.*\(3,\).*batch_step"):
        run_chain(KEY, states, sampler.step, 2)


@pytest.mark.parametrize("name", PARTICLES)
def test_particles_without_a_common_leading_axis(name):
    init = bound(name).init
    for particles, message in (
        ({"a": POSITION, "b": jnp.ones(4)}, "arrays that share.*'a'.*3.*'b'.*4"),
        (jnp.float32(1.0), "arrays that share.*None"),
        (jnp.ones((0, 2)), "at least one particle"),
        (jnp.zeros(5), r"an axis.*\(5,\).*x\[None\]"),
    ):
        with pytest.raises(ValueError, match=rf"^particles must .*{message}"):
            init(particles)


def test_what_is_no_step_is_refused():
    sampler = bound("sgld")
    state = sampler.init(jnp.zeros(2))
    for drive in (partial(run_chain, KEY, state, num_steps=2), batch_step):
        with pytest.raises(TypeError, match=r"^step must be a function.*Sampler.*sampler\.step"):
            drive(step=sampler)
    with pytest.raises(TypeError, match=r"\(key, state\) -> .*got \['state', 'key'\]"):
        run_chain(KEY, state, lambda state, key: (state, ()), 2)


def test_a_density_that_fails_at_a_start_names_its_shape_and_start_fn():
    """The starts of a buffer have three coordinates, and the model two."""
    buffer = samplers.replay_buffer_init(KEY, 4, samplers.gaussian_start((3,)))
    sampler = samplers.sgld(lambda x: -jnp.sum(x @ jnp.eye(2)), step_size=0.1)
    with pytest.raises(TypeError, match="dot_general") as error:
        jax.vmap(sampler.init)(buffer.positions)
    assert any("of shape (3,)" in note and "start_fn" in note for note in error.value.__notes__)


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda: clamp(samplers.sgld, 0.5, 0.5), "^low must be below high, got low=0.5"),
        (lambda: reflect(samplers.sgld, 0.5, 0.5), "^low must be below high"),
        (lambda: reflect(samplers.sgld, 0.0, jnp.inf), "^high must be finite, got high=inf"),
        (lambda: clip_drift(samplers.sgld, 0.0), "^max_drift must be positive"),
        (lambda: clip_drift(samplers.sgld, 1.0)(log_density, step_size=0.0), "^step_size must be"),
        (lambda: clip_score(log_density, -1.0), "^max_abs must be positive"),
    ],
)
def test_bad_wrappers(wrap, message):
    with pytest.raises(ValueError, match=message):
        wrap()


def test_a_long_argument_is_shown_by_its_beginning():
    with pytest.raises(ValueError, match=r"scale must be positive .* got scale=\[-1") as caught:
        check_positive("scale", np.linspace(-1.0, 1.0, 10_000))
    assert len(str(caught.value)) < 300
