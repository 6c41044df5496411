"""Loops outside of jit: compiled once for equal traces, and never for another program's numbers."""

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax._programs import NUM_KEPT, _program, run_program
from ebmjax.samplers import batch_step, run_chain, sgld


def parabola(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(x**2)


def start(shape: tuple[int, ...] = (3,)) -> Any:
    return jax.vmap(sgld(parabola, step_size=0.1).init)(jnp.ones((2, *shape)))


def run_by_default(*arguments: str) -> list[str]:
    """Words that a program prints where JAX makes constants of a trace its arguments, which is its
    default and not that of these tests."""
    environment = {**os.environ, "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "false"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.slow
def test_equal_calls_compile_once() -> None:
    """Every driver and loop of the library is called, with functions and arrays made anew."""
    counts = run_by_default(str(Path(__file__).with_name("program_calls.py")))
    assert len(counts) == 18
    assert [count for count in counts if not count.endswith("=0")] == []


@pytest.mark.slow
def test_outside_and_inside_of_jit_the_numbers_are_the_same() -> None:
    """Bit by bit, also for other dtypes, sizes and keys of the same step."""
    step = batch_step(sgld(parabola, step_size=0.1).step)
    run = partial(run_chain, step=step, num_steps=5)
    for shape in ((3,), (2, 2)):
        for seed in range(2):
            key, state = jax.random.key(seed), start(shape)
            outside, inside = run(key, state), jax.jit(run)(key, state)
            for left, right in zip(*map(jax.tree.leaves, (outside, inside)), strict=True):
                np.testing.assert_array_equal(left, right)


def test_inside_of_a_transformation_nothing_is_added() -> None:
    def double(x: jax.Array) -> jax.Array:
        return 2.0 * x

    before = _program.cache_info()
    program = jax.make_jaxpr(partial(run_program, double))(1.0)
    assert str(program) == str(jax.make_jaxpr(double)(1.0))
    assert jax.grad(partial(run_program, double))(1.0) == 2.0
    assert jax.vmap(lambda x: run_program(lambda y: y * x, 3.0))(jnp.ones(2)).shape == (2,)
    with jax.disable_jit():
        assert run_program(double, 1.0) == 2.0
    assert _program.cache_info() == before


def test_what_the_function_reads_is_read_at_every_call() -> None:
    """A name bound anew, an array of NumPy written to, and what a function under jit holds."""
    factor = jnp.ones(2)

    def read(x: jax.Array) -> jax.Array:
        return x * factor

    assert float(run_program(read, jnp.ones(2))[0]) == 1.0
    factor = jnp.full(2, 3.0)
    assert float(run_program(read, jnp.ones(2))[0]) == 3.0
    factor = numbers = np.ones(2, np.float32)
    assert float(run_program(read, jnp.ones(2))[0]) == 1.0
    numbers[:] = 5.0
    assert float(run_program(read, jnp.ones(2))[0]) == 5.0
    for value in (2.0, 4.0):
        held = jnp.full(2, value)
        jitted = jax.jit(lambda x, held=held: x * held)
        looped = run_program(
            lambda x, f=jitted: jax.lax.fori_loop(0, 2, lambda _, y: f(y), x), held
        )
        assert float(looped[0]) == value**3


@pytest.mark.parametrize("other", [-0.0, 1.0, np.nan])
def test_programs_that_differ_in_a_number_are_kept_apart(other: float) -> None:
    for value in (0.0, other):
        found = run_program(lambda x, value=value: jnp.copysign(1.0 + x, value) + value, 0.0)
        np.testing.assert_array_equal(found, np.copysign(1.0, value) + value)


def test_the_program_holds_whatever_derivatives_its_functions_have() -> None:
    """Rules of differentiation are made anew at every trace."""

    def make() -> Callable[[jax.Array], jax.Array]:
        @jax.custom_jvp
        def one(x: jax.Array) -> jax.Array:
            return 2.0 * x

        @jax.custom_vjp
        def other(x: jax.Array) -> jax.Array:
            return one(x) + 1.0

        one.defjvp(lambda primals, tangents: (one(*primals), tangents[0]))
        other.defvjp(lambda x: (other(x), None), lambda _, g: (g,))
        return lambda x: jax.nn.silu(other(x))

    run_program(make(), 1.0)
    misses = _program.cache_info().misses
    assert run_program(make(), 1.0) == jax.nn.silu(3.0)
    assert _program.cache_info().misses == misses


STEPS = """
import gc, sys, weakref
import jax, jax.numpy as jnp
from ebmjax._programs import _program
from ebmjax.samplers import run_chain, sgld

held = []
for i in range(6):
    mean = jnp.full(1000, float(i))
    held.append(weakref.ref(mean))
    sampler = sgld(lambda x, mean=mean: -0.5 * jnp.sum((x - mean) ** 2), step_size=0.5)
    state, _, _ = run_chain(jax.random.key(0), sampler.init(jnp.zeros(1000)), sampler.step, 50)
    assert abs(float(state.position.mean()) - i) < 0.3
del mean, sampler, state
gc.collect()
print(_program.cache_info().currsize, sum(ref() is not None for ref in held))
"""


@pytest.mark.slow
def test_steps_that_hold_other_arrays_share_a_program_and_leave_none_behind() -> None:
    assert run_by_default("-c", STEPS) == ["1", "0"]


@pytest.mark.slow
def test_only_the_last_programs_are_kept() -> None:
    made = []
    for length in range(1, NUM_KEPT + 3):
        function = partial(jax.lax.fori_loop, 0, length, lambda _, x: x + 1.0)
        assert run_program(function, 0.0) == length
        made.append(weakref.ref(function))
    gc.collect()
    assert _program.cache_info().currsize == NUM_KEPT
    assert not any(ref() for ref in made[:-1])
