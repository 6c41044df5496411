"""Wrappers turn, clip, carry on or refuse the fields of a state."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers


class Ball(NamedTuple):
    """A position that moves by its velocity, with whatever else a test puts beside them."""

    position: Any
    velocity: Any
    log_density: Any
    other: Any = None


class Moment(NamedTuple):
    """Declares, by its attribute, what a mirror leaves unchanged."""

    mean: Any
    even = ("mean",)


class Nested(NamedTuple):
    """A state inside a state, and a momentum beside it."""

    chain: Any
    momentum: Any


def ball(log_density_fn, *, velocity, other=None):
    """Free flight: the position moves by the velocity, which stays."""

    def init(position, key=None):
        return Ball(position, velocity, log_density_fn(position), other)

    def step(key, state):
        position = jax.tree.map(jnp.add, state.position, state.velocity)
        return state._replace(position=position, log_density=log_density_fn(position)), None

    return samplers.Sampler(init, step)


def nested_ball(log_density_fn, *, velocity, **others):
    inner = ball(log_density_fn, velocity=velocity, **others)

    def step(key, state):
        return state._replace(chain=inner.step(key, state.chain)[0]), None

    return samplers.Sampler(lambda x, key=None: Nested(inner.init(x), velocity), step)


def flat(x):
    return 0.0 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(x))


START = {"a": jnp.array([0.5, -0.5]), "b": jnp.array(0.5)}
VELOCITY = {"a": jnp.array([0.7, -0.7]), "b": jnp.array(0.25)}
PLACES = {
    "reflect": ({"a": [0.8, -0.8], "b": 0.75}, {"a": [-0.7, 0.7], "b": 0.25}),
    "clamp": ({"a": [1.0, -1.0], "b": 0.75}, {"a": [-0.7, 0.7], "b": 0.25}),
}


def assert_close(found, expected):
    """Up to a few roundings of numbers of order one."""
    expected = jax.tree.map(jnp.asarray, expected, is_leaf=lambda x: isinstance(x, list))
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), found, expected)


@pytest.mark.parametrize("make", [ball, nested_ball], ids=["alone", "nested"])
@pytest.mark.parametrize("is_scheduled", [False, True])
@pytest.mark.parametrize(("wall", "expected"), PLACES.items(), ids=list(PLACES))
def test_a_velocity_turns_where_its_chain_meets_a_wall(make, is_scheduled, wall, expected):
    """Whole PyTrees, states inside of states, and the momentum that stands beside one."""
    wrapped = getattr(samplers, wall)(make, -1.0, 1.0)
    wrapped = samplers.schedule(wrapped) if is_scheduled else wrapped
    sampler = wrapped(flat, velocity=VELOCITY)
    state, _ = jax.jit(sampler.step)(jax.random.key(0), sampler.init(START))
    assert_close(samplers.position_of(state), expected[0])
    state = state.inner if is_scheduled else state
    if make is nested_ball:
        assert_close(state.momentum, expected[1])
        state = state.chain
    assert_close(state.velocity, expected[1])


WRAPPERS = {
    "reflect": lambda make: samplers.reflect(make, -1.0, 1.0),
    "clamp": lambda make: samplers.clamp(make, -1.0, 1.0),
    "clip_drift": lambda make: samplers.clip_drift(
        lambda density, step_size, **others: make(density, **others), 1.0
    ),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("make", [ball, nested_ball])
@pytest.mark.parametrize(
    ("position", "other", "name"),
    [
        (jnp.ones(3), jnp.ones(3), "Ball.other"),
        (jnp.ones(()), jnp.ones(()), "Ball.other"),
        (START, START, "dict.a"),
        (START, jnp.ones(3), "Ball.other"),  # all coordinates in a row
        (jnp.ones((2, 2)), jnp.ones((1, 4)), "Ball.other"),
        (jnp.ones(3), jnp.ones((5, 3)), "Ball.other"),  # several, such as replicas
        (jnp.ones(3), jnp.ones((3, 1), complex), "Ball.other"),
        (jnp.ones(3), {"deep": [jnp.ones(3)]}, "list"),
        (jnp.ones(3), Ball(None, jnp.ones(2), None), "Ball.velocity"),  # of another shape
    ],
)
def test_a_field_that_no_wrapper_knows_is_refused(wrapper, make, position, other, name):
    velocity = jax.tree.map(jnp.zeros_like, position)
    options = {"step_size": 0.1} if wrapper == "clip_drift" else {}
    sampler = WRAPPERS[wrapper](make)(flat, velocity=velocity, other=other, **options)
    with pytest.raises(
        TypeError, match=f"cannot tell what to do with {name}.*velocity or momentum"
    ):
        sampler.init(position)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(
    "make_state",
    [lambda *parts: parts, lambda x, v: {"q": x, "p": v}],
    ids=["pair", "other_names"],
)
def test_a_state_whose_position_is_not_found_is_refused(wrapper, make_state):
    """Its walls would let everything through."""
    sampler = samplers.Sampler(
        lambda x, key=None: make_state(x, x), lambda key, state: (state, None)
    )
    options = {"step_size": 0.1} if wrapper == "clip_drift" else {}
    wrapped = WRAPPERS[wrapper](lambda density, **others: sampler)(flat, **options)
    with pytest.raises(TypeError, match=r"no field named .*position in .*register_dataclass"):
        wrapped.init(jnp.ones(3))


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(
    "other",
    [None, jnp.int32(3), jnp.float32(0.5), jax.random.key(0), Moment(jnp.ones(3))],
    ids=["none", "count", "number", "key", "moment"],
)
def test_whatever_a_mirror_leaves_unchanged_is_carried_on(wrapper, other):
    options = {"step_size": 0.1} if wrapper == "clip_drift" else {}
    make = WRAPPERS[wrapper](ball)
    sampler = make(flat, velocity=jnp.full(3, 0.7), other=other, **options)
    state, _ = sampler.step(jax.random.key(0), sampler.init(jnp.full(3, 0.5)))
    assert jax.tree.all(jax.tree.map(lambda a, b: jnp.all(a == b), state.other, other))
    # A number beside a position of one coordinate is not that coordinate's.
    one = make(flat, velocity=jnp.full(1, 0.7), other=jnp.float32(0.5), **options)
    assert one.init(jnp.full(1, 0.5)).other == 0.5


@pytest.mark.parametrize("wrapper", ["reflect", "clamp"])
def test_pyld_is_refused(wrapper):
    """Around it a box would hold the hidden layer, whose gradient the state carries."""
    make = partial(samplers.pyld, lambda x: jnp.concatenate([x, x]), num_inner=1)
    with pytest.raises(TypeError, match=r"PYLDState\.cotangent"):
        WRAPPERS[wrapper](make)(flat, step_size=0.1).init(jnp.ones(2))


def test_the_position_of_a_state_inside_a_state():
    inner = samplers.sgld(flat, step_size=0.1)
    state = Nested(inner.init(jnp.ones(2)), None)
    assert_close(samplers.position_of(state), [1.0, 1.0])

    def step(key, state):
        chain, info = inner.step(key, state.chain)
        return Nested(chain, None), info

    _, positions, _ = samplers.run_chain(jax.random.key(0), state, step, 4)
    assert positions.shape == (4, 2)
