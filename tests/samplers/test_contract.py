"""Contract of every sampler, checked over one table with a row a sampler."""

from functools import partial

import blackjax
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_table import TABLE, skewed
from jax.extend.core import jaxprs_in_params
from sampler_names import NAMES, PARTICLES, SEED

from ebmjax.samplers import batch_step, position_of

SAME_CODE = {"psgld", "psgld_image_form", "svgd_fixed_bandwidth", "stochastic_svgd"}
"""Rows whose every line another row runs too: what costs a compilation leaves them out."""

every_row = pytest.mark.parametrize("entry", TABLE.values(), ids=TABLE)
every_code = pytest.mark.parametrize(
    "entry", [pytest.param(TABLE[name], id=name) for name in TABLE if name not in SAME_CODE]
)
every_random_row = pytest.mark.parametrize(
    "entry",
    [entry for entry in TABLE.values() if entry.is_random],
    ids=[name for name, entry in TABLE.items() if entry.is_random],
)


def test_every_sampler_has_a_row():
    assert set(NAMES) <= set(TABLE)
    for name in NAMES:
        assert TABLE[name].has_particles == (name in PARTICLES)


def start(entry, dtype=jnp.float32, seed=0):
    """A PyTree of a scalar and a matrix; with six of each for particle samplers."""
    lead = (6,) if entry.has_particles else ()
    shapes = {"bias": (), "matrix": (2, 1)}
    generator = np.random.default_rng(seed)
    return {
        name: jnp.asarray(0.4 * generator.normal(size=lead + shape), dtype)
        for name, shape in shapes.items()
    }


def assert_same_up_to_rounding(actual, expected):
    """Equal up to the order in which compilers add: some ten operations, each to 1 ulp."""
    eps = {
        leaf.dtype: float(jnp.finfo(leaf.dtype).eps)
        for leaf in jax.tree.leaves(expected)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    }
    tolerance = 30 * max(eps.values())
    as_float = partial(jax.tree.map, lambda leaf: np.asarray(leaf, np.float64))
    chex.assert_trees_all_close(
        as_float(actual), as_float(expected), rtol=tolerance, atol=tolerance
    )


def differs(left, right):
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return any(not np.array_equal(a, b) for a, b in pairs)


@every_code
def test_jit_is_eager(entry):
    state = entry.sampler.init(start(entry))
    key = jax.random.key(1)
    assert_same_up_to_rounding(entry.compiled.step(key, state), entry.sampler.step(key, state))


@every_code
def test_vmap_is_a_loop_over_chains(entry):
    starts = [start(entry, seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    key = jax.random.key(2)

    @jax.jit
    def both(key, stacked):
        states = jax.vmap(entry.sampler.init)(stacked)
        return states, batch_step(entry.sampler.step)(key, states)

    states, batched = both(key, stacked)

    one_by_one = [
        entry.compiled.step(chain_key, entry.compiled.init(position))
        for chain_key, position in zip(jax.random.split(key, 3), starts, strict=True)
    ]
    expected = jax.tree.map(lambda *leaves: jnp.stack(leaves), *one_by_one)
    assert_same_up_to_rounding(batched, expected)
    assert differs(position_of(batched[0]), position_of(states))


@every_code
def test_scan_is_a_loop_over_steps_and_blackjax_drives_it(entry):
    key = jax.random.key(10)
    final, (states, infos) = blackjax.util.run_inference_algorithm(
        key, entry.sampler, num_steps=3, initial_position=start(entry)
    )
    run_key, init_key = jax.random.split(key)
    state = entry.compiled.init(start(entry), init_key)
    for step_key in jax.random.split(run_key, 3):
        state, info = entry.compiled.step(step_key, state)
    assert_same_up_to_rounding(final, state)
    last = partial(jax.tree.map, lambda leaf: leaf[-1])
    assert_same_up_to_rounding(last((states, infos)), (state, info))


@every_row
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32, jnp.float64])
def test_dtypes_and_structure_are_kept(entry, dtype):
    with jax.enable_x64(dtype == jnp.float64):
        position = start(entry, dtype)
        state = jax.eval_shape(entry.sampler.init, position)
        after, info = jax.eval_shape(entry.sampler.step, jax.random.key(0), state)
        chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
        chex.assert_trees_all_equal_shapes_and_dtypes(position_of(after), position)
        inner = after.inner if hasattr(after, "inner") else after
        if hasattr(inner, "score"):
            chex.assert_trees_all_equal_shapes_and_dtypes(inner.score, position)
        if hasattr(inner, "second_moment"):  # a running mean, whose steps bfloat16 rounds away
            wide = jnp.promote_types(dtype, jnp.float32)
            wider = jax.tree.map(lambda leaf: jnp.asarray(leaf, wide), position)
            chex.assert_trees_all_equal_shapes_and_dtypes(inner.second_moment, wider)
        assert all(leaf.shape in entry.info_shapes for leaf in jax.tree.leaves(info))


@every_code
def test_bfloat16_is_coarse_float32(entry):
    """Up to a few units of bfloat16's precision, where the step does not decide by a coin."""
    state = entry.compiled.init(start(entry, jnp.bfloat16))
    after, _ = entry.compiled.step(jax.random.key(0), state)
    for leaf in jax.tree.leaves(position_of(after)):
        assert np.all(np.isfinite(np.asarray(leaf, np.float32)))
    if not entry.is_random:  # the noise of another dtype is another noise
        wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), position_of(state))
        expected, _ = entry.compiled.step(jax.random.key(0), entry.compiled.init(wide))
        tolerance = 8 * float(jnp.finfo(jnp.bfloat16).eps)
        as_float = partial(jax.tree.map, lambda leaf: np.asarray(leaf, np.float32))
        chex.assert_trees_all_close(
            as_float(position_of(after)), as_float(position_of(expected)), atol=tolerance
        )


@every_row
def test_hyperparameters_take_effect_without_retracing(entry):
    @chex.assert_max_traces(n=1)
    def step(keys, state, hyperparameters):
        sampler = entry.make(skewed, **hyperparameters, **entry.options)
        return jax.vmap(sampler.step, in_axes=(0, None))(keys, state)

    chex.clear_trace_counter()
    step = jax.jit(step)
    state = entry.compiled.init(start(entry))
    keys = jax.random.split(jax.random.key(4), 8)
    reference = step(keys, state, entry.hyperparameters)
    for name, value in entry.hyperparameters.items():
        changed = step(keys, state, {**entry.hyperparameters, name: 0.5 * value})
        assert differs(changed, reference), name


@every_row
def test_a_python_number_does_not_compile_twice(entry):
    """A state's types are settled by ``init``: a weakly typed one would change after one step."""
    position = [0.1, 0.2] if not entry.has_particles else [jnp.ones(3), jnp.zeros(3)]
    state = jax.eval_shape(entry.sampler.init, position)
    after, _ = jax.eval_shape(entry.sampler.step, jax.random.key(0), state)
    for before, now in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert before.weak_type == now.weak_type


@every_random_row
def test_a_key_is_a_draw(entry):
    state = entry.compiled.init(start(entry))
    first, again, other = (entry.compiled.step(jax.random.key(seed), state) for seed in (5, 5, 6))
    chex.assert_trees_all_equal(first, again)
    assert differs(first, other)


@every_random_row
def test_keys_are_consumed_once(entry):
    state = entry.compiled.init(start(entry))
    with jax.debug_key_reuse(True):
        key = jax.random.key(7)
        jax.jit(entry.sampler.step)(key, state)
        with pytest.raises(jax.errors.KeyReuseError):  # also proves that the detector is awake
            jax.random.normal(key)


@pytest.mark.parametrize(
    "entry",
    [entry for entry in TABLE.values() if entry.functional],
    ids=[name for name, entry in TABLE.items() if entry.functional],
)
def test_bound_form_is_the_functional_form(entry):
    init, step = entry.functional  # type: ignore[misc]
    state = init(start(entry), skewed)
    chex.assert_trees_all_equal(entry.sampler.init(start(entry)), state)
    chex.assert_trees_all_equal(entry.compiled.init(start(entry), jax.random.key(SEED)), state)

    def functional(key, state):
        return step(key, state, skewed, **entry.hyperparameters, **entry.options)

    arguments = (jax.random.key(9), state)
    bound_program, program = map(jax.make_jaxpr, (entry.sampler.step, functional))
    assert str(bound_program(*arguments)) == str(program(*arguments))


def primitives(jaxpr):
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in jaxprs_in_params(equation.params):
            yield from primitives(inner)


@every_row
def test_one_gradient_a_step(entry):
    """lgamma's derivative is digamma, which nothing else here uses: count it in the program."""

    def log_density_fn(position):
        return -jnp.sum(jax.lax.lgamma(jnp.exp(position)))

    sampler = entry.bind(log_density_fn)
    state = jax.eval_shape(sampler.init, jnp.zeros((3, 2)))
    program = jax.make_jaxpr(sampler.step)(jax.random.key(0), state)
    names = list(primitives(program.jaxpr))
    # A Hessian-vector product names digamma once more, in a tangent nobody reads.
    assert (names.count("lgamma"), names.count("digamma")) == entry.uses_in_program
