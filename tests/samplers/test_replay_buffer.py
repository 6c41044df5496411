"""The replay buffer: uniform draws without duplicates, restarts, writes in place."""

from functools import partial
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxprs_in_params
from monte_carlo import assert_mean, assert_moments
from scipy import stats

from ebmjax.samplers import (
    ReplayBuffer,
    gaussian_start,
    replay_buffer_draw,
    replay_buffer_init,
    replay_buffer_write,
    uniform_start,
)


def numbered_buffer(size):
    """Slot i holds i, so that a draw tells where it came from."""
    return ReplayBuffer(jnp.arange(float(size)))


def fresh(key, label):
    """Values that no numbered buffer holds: -1 - label, with nothing random."""
    del key
    return -1.0 - label.astype(jnp.float32)


def many_draws(num_trials, buffer, num, **options):
    options = {"start_fn": fresh, "reinit_prob": 0.0} | options
    keys = jax.random.split(jax.random.key(0), num_trials)
    draw = partial(replay_buffer_draw, buffer=buffer, num=num, **options)
    return jax.jit(jax.vmap(lambda key: draw(key)))(keys)


def assert_equally_likely(outcomes, possible):
    """A chi-square test at 1e-6; an outcome that is not possible fails at once."""
    counts = dict.fromkeys(possible, 0)
    for outcome in map(tuple, outcomes.tolist()):
        counts[outcome] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6


@pytest.mark.parametrize(("num", "size"), [(1, 4), (3, 5), (4, 4)])
def test_every_ordered_choice_of_slots_is_equally_likely(num, size):
    draws = many_draws(20_000, numbered_buffer(size), num)
    assert_equally_likely(np.asarray(draws.slots), list(permutations(range(size), num)))


def test_every_ordered_choice_within_classes_is_equally_likely():
    labels = jnp.array([2, 0, 2])
    draws = many_draws(20_000, numbered_buffer(9), 3, num_classes=3, labels=labels)
    possible = [(a, b, c) for a, c in permutations((6, 7, 8), 2) for b in (0, 1, 2)]
    assert_equally_likely(np.asarray(draws.slots), possible)
    np.testing.assert_array_equal(draws.labels, np.tile(labels, (20_000, 1)))


@st.composite
def rounds(draw):
    """A buffer's classes and block size, and draws from it: with or without labels."""
    num_classes, block = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    labels = st.none() | st.lists(st.integers(-1, num_classes), min_size=1, max_size=block)
    free = st.integers(1, num_classes * block)
    one = st.tuples(labels, free, st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 2**31))
    return num_classes, block, draw(st.lists(one, min_size=1, max_size=3))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(rounds())
def test_draws_and_writes_follow_a_list_of_slots(given_rounds):
    """A model of the buffer in plain Python. Traced labels out of range reach no slot."""
    num_classes, block, draws = given_rounds
    size = num_classes * block
    buffer = replay_buffer_init(jax.random.key(0), size, fresh, num_classes=num_classes)
    model = [-1.0 - slot // block for slot in range(size)]
    np.testing.assert_array_equal(buffer.positions, model)
    for labels, num, reinit_prob, seed in draws:
        num = len(labels) if labels else num
        options = {"num_classes": num_classes, "reinit_prob": reinit_prob}
        wanted = jnp.array(labels) if labels else None

        def step(key, buffer, wanted, num=num, options=options):
            draw = replay_buffer_draw(key, buffer, num, fresh, **options, labels=wanted)
            return draw, replay_buffer_write(buffer, draw.slots, draw.positions - 10.0)

        # Labels are traced, so that those out of range are not refused.
        draw, buffer = jax.jit(step)(jax.random.key(seed), buffer, wanted)
        assert (draw.slots.dtype, draw.labels.dtype) == (jnp.int32, jnp.int32)
        slots, is_new = draw.slots.tolist(), draw.is_new.tolist()
        if labels is not None:
            assert draw.labels.tolist() == labels
            for label, slot in zip(labels, slots, strict=True):
                assert slot == size if not 0 <= label < num_classes else slot // block == label
        inside = [slot for slot in slots if slot < size]
        assert len(set(inside)) == len(inside)
        assert {0.0: not any(is_new), 1.0: all(is_new)}.get(reinit_prob, True)
        for slot, new, label, position in zip(
            slots, is_new, draw.labels.tolist(), draw.positions.tolist(), strict=True
        ):
            assert 0 <= label < num_classes or labels is not None
            assert new or slot == size or position == model[slot]
            assert position == -1.0 - label or not new
        for slot, position in zip(slots, draw.positions.tolist(), strict=True):
            if slot < size:
                model[slot] = position - 10.0
        np.testing.assert_array_equal(buffer.positions, model)


def outputs(jaxpr):
    for equation in jaxpr.eqns:
        yield from equation.outvars
        for inner in jaxprs_in_params(equation.params):
            yield from outputs(inner)


@pytest.mark.parametrize("labels", [None, jnp.array([0, 1, 1, 0])])
def test_a_draw_costs_the_batch_not_the_buffer(labels):
    size = 1_000_000

    def draw(key, positions):
        return replay_buffer_draw(
            key, ReplayBuffer(positions), 4, fresh, num_classes=2, reinit_prob=0.1, labels=labels
        )

    program = jax.make_jaxpr(draw)(jax.random.key(0), jax.ShapeDtypeStruct((size,), jnp.float32))
    assert max(variable.aval.size for variable in outputs(program.jaxpr)) < 100


def test_restarts_are_independent_coins():
    draws = many_draws(10_000, numbered_buffer(8), 4, num_classes=4, reinit_prob=0.3)
    is_new = np.asarray(draws.is_new, float)
    assert_mean(is_new, 0.3)
    assert_mean(is_new[:, 0] * is_new[:, 1], 0.09)
    assert_mean(is_new * (np.asarray(draws.slots) < 4), 0.15)  # whatever the slot

    expected = np.where(draws.is_new, -1.0 - np.asarray(draws.labels), draws.slots)
    np.testing.assert_array_equal(draws.positions, expected)
    old = ~np.asarray(draws.is_new)
    np.testing.assert_array_equal(draws.labels[old], draws.slots[old] // 2)
    new_labels = np.asarray(draws.labels)[~old]
    assert_equally_likely(new_labels[:, None], [(label,) for label in range(4)])


def test_restarts_are_draws_of_the_law():
    """Each from a key of its own, whatever its place in the batch."""
    start_fn = gaussian_start((), 100.0, 2.0)
    draws = many_draws(5_000, numbered_buffer(8), 3, start_fn=start_fn, reinit_prob=0.5)
    positions, is_new = np.asarray(draws.positions), np.asarray(draws.is_new)
    assert np.all((positions > 50) == is_new)
    assert_moments(positions[is_new], 100.0, 4.0)
    both = is_new[:, 0] & is_new[:, 2]
    assert_mean((positions[both, 0] - 100.0) * (positions[both, 2] - 100.0), 0.0)


def test_the_law_is_called_for_new_positions_only():
    calls = []

    def counted(key, label):
        jax.debug.callback(lambda: calls.append(1))
        return fresh(key, label)

    draw_16 = partial(replay_buffer_draw, num=16, start_fn=counted, reinit_prob=0.3)
    draw = jax.jit(lambda key, buffer: draw_16(key, buffer))(jax.random.key(3), numbered_buffer(40))
    jax.effects_barrier()
    assert 0 < len(calls) == int(jnp.sum(draw.is_new)) < 16


def test_a_donated_buffer_is_written_in_place():
    @partial(jax.jit, donate_argnums=1)
    def advance(key, buffer):
        draw = replay_buffer_draw(key, buffer, 4, fresh, reinit_prob=0.1)
        return replay_buffer_write(buffer, draw.slots, draw.positions + 100.0)

    buffer = numbered_buffer(4096)
    address = buffer.positions.unsafe_buffer_pointer()
    written = advance(jax.random.key(0), buffer)
    assert buffer.positions.is_deleted()
    assert written.positions.unsafe_buffer_pointer() == address
    assert np.sum(np.asarray(written.positions) != np.arange(4096.0)) == 4


def one_round(key, buffer):
    start_fn = uniform_start((), -1.0, 0.0)
    draw = replay_buffer_draw(key, buffer, 3, start_fn, num_classes=2, reinit_prob=0.5)
    return replay_buffer_write(buffer, draw.slots, draw.positions + 0.25), draw


def test_keys_are_consumed_once():
    with jax.debug_key_reuse(True):
        key = jax.random.key(7)
        jax.jit(one_round)(key, numbered_buffer(6))
        with pytest.raises(jax.errors.KeyReuseError):
            jax.random.normal(key)


def draw_badly(**changes):
    arguments = {"buffer": numbered_buffer(12), "num": 4, "start_fn": fresh, "reinit_prob": 0.1}
    return replay_buffer_draw(jax.random.key(0), **(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num": 13}, "^num must be at most the 12 slots of the replay.*num=13"),
        ({"num_classes": 5}, "^num_classes must divide.*num_classes=5 and size=12"),
        ({"num_classes": 4, "labels": jnp.arange(4)}, "^num must be at most the 3 slots of one"),
        ({"reinit_prob": 1.1}, "^reinit_prob must lie between 0 and 1"),
        ({"start_fn": gaussian_start((2,))}, r"^start_fn must be .*\(\).*\(2,\)"),
        ({"labels": jnp.zeros(3, int)}, r"^labels must hold .*\(4,\).*\(3,\)"),
        ({"labels": jnp.array([0, -1, 0, 0])}, r"^labels must lie in 0\.\.0; .*-1 to 0"),
        ({"buffer": ReplayBuffer({"a": jnp.ones(3), "b": jnp.ones(4)})}, "^buffer.positions must"),
    ],
)
def test_bad_draws(changes, message):
    with pytest.raises(ValueError, match=message):
        draw_badly(**changes)


@pytest.mark.parametrize("positions", [jnp.zeros(3), {"a": jnp.zeros(2)}])
def test_bad_writes(positions):
    with pytest.raises(ValueError, match="positions must be one for each entry of slots"):
        replay_buffer_write(numbered_buffer(4), jnp.arange(2), positions)


@pytest.mark.parametrize(
    ("start_fn", "expected"),
    [
        (lambda key: jnp.zeros(2), r"its arguments are \(key\)"),
        (lambda key, label, x: jnp.zeros(2), r"its arguments are \(key, label, x\)"),
        (lambda key, label: None, "it returns None"),
        (lambda key, label: label, "it returns .*int32"),
        (jnp.zeros(2), "got a ArrayImpl"),
    ],
)
def test_the_contract_of_a_start_distribution_is_named(start_fn, expected):
    with pytest.raises(TypeError, match=rf"^start_fn must be start_fn\(key, label\).*{expected}"):
        replay_buffer_init(jax.random.key(0), 4, start_fn)
