"""The replay buffer: uniform draws without duplicates, restarts, writes in place."""

from functools import partial
from itertools import permutations

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
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


def labelled_start(key, label):
    """A position that tells which class it was asked for."""
    return {"label": label.astype(jnp.float32), "noise": jax.random.uniform(key, (2,))}


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


def test_slots_start_in_class_blocks():
    buffer = replay_buffer_init(jax.random.key(0), 12, labelled_start, num_classes=3)
    np.testing.assert_array_equal(buffer.positions["label"], np.arange(12) * 3 // 12)
    assert buffer.positions["noise"].shape == (12, 2)
    assert len(np.unique(buffer.positions["noise"])) == 24  # a key of its own for every slot


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


@pytest.mark.parametrize("num", [33, 30])
def test_no_slot_twice_in_crowded_draws(num):
    """Nearly all slots: the long chains of one step's choice depending on another's."""
    slots = np.asarray(many_draws(300, numbered_buffer(33), num).slots)
    assert slots.min() == 0
    assert slots.max() == 32
    assert all(len(set(row)) == num for row in slots.tolist())


def test_no_slot_twice_in_crowded_classes():
    labels = np.array([2] * 17 + [0] * 3 + [1] * 10 + [2] * 3)
    draws = many_draws(300, numbered_buffer(99), 33, num_classes=3, labels=jnp.asarray(labels))
    slots = np.asarray(draws.slots)
    assert np.all(slots // 33 == labels)
    assert all(len(set(row)) == 33 for row in slots.tolist())


def test_a_batch_of_one_class_may_empty_its_block():
    labels = jnp.full(5, 1)
    draws = many_draws(50, numbered_buffer(10), 5, num_classes=2, labels=labels)
    np.testing.assert_array_equal(np.sort(draws.slots, axis=1), np.tile(np.arange(5, 10), (50, 1)))


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


def test_restarts_never_and_always():
    buffer = numbered_buffer(20)
    kept = many_draws(10, buffer, 6, reinit_prob=0.0)
    np.testing.assert_array_equal(kept.positions, kept.slots)
    assert not np.any(kept.is_new)
    new = many_draws(10, buffer, 6, num_classes=4, reinit_prob=1.0)
    np.testing.assert_array_equal(new.positions, -1.0 - new.labels)
    assert np.all(new.is_new)


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


def test_restarts_follow_the_given_class():
    labels = jnp.array([3, 0, 3])
    options = {"num_classes": 4, "labels": labels, "reinit_prob": 0.5}
    draws = many_draws(20, numbered_buffer(16), 3, **options)
    expected = np.where(draws.is_new, -1.0 - labels[None], draws.slots)
    np.testing.assert_array_equal(draws.positions, expected)
    assert np.any(draws.is_new)
    assert not np.all(draws.is_new)


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


def test_write_changes_the_slots_and_nothing_else():
    buffer = replay_buffer_init(jax.random.key(0), 10, labelled_start, num_classes=2)
    slots = jnp.array([7, 2, 9])
    new = {"label": jnp.array([70.0, 20.0, 90.0]), "noise": jnp.full((3, 2), 5.0)}
    written = replay_buffer_write(buffer, slots, new)
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[slots], written.positions), new)
    others = np.setdiff1d(np.arange(10), slots)
    pick = partial(jax.tree.map, lambda leaf: leaf[others])
    chex.assert_trees_all_equal(pick(written.positions), pick(buffer.positions))


def test_write_keeps_the_dtype_of_the_buffer():
    new = jnp.array([0.5, 1.5], jnp.bfloat16)
    written = replay_buffer_write(numbered_buffer(4), jnp.array([3, 0]), new)
    assert written.positions.dtype == jnp.float32
    np.testing.assert_array_equal(written.positions, [1.5, 1.0, 2.0, 0.5])


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


@pytest.mark.slow
def test_vmap_and_scan_are_loops():
    keys, step = jax.random.split(jax.random.key(4), 3), jax.jit(one_round)
    buffer, draws = numbered_buffer(6), []
    for key in keys:
        buffer, draw = step(key, buffer)
        draws.append(draw)
    expected = (buffer, jax.tree.map(lambda *leaves: jnp.stack(leaves), *draws))
    scanned = jax.jit(lambda buffer: jax.lax.scan(lambda b, k: one_round(k, b), buffer, keys))
    chex.assert_trees_all_equal(scanned(numbered_buffer(6)), expected)

    buffers = ReplayBuffer(jnp.stack([numbered_buffer(6).positions + i for i in range(3)]))
    loop = [step(key, ReplayBuffer(row)) for key, row in zip(keys, buffers[0], strict=True)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *loop)
    chex.assert_trees_all_equal(jax.jit(jax.vmap(one_round))(keys, buffers), stacked)


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
    ("call", "message"),
    [
        (lambda: replay_buffer_init(jax.random.key(0), 10, fresh, num_classes=3),
         "^num_classes must divide.*num_classes=3 and size=10"),
        (lambda: replay_buffer_init(jax.random.key(0), 0, fresh), "^size must be"),
        (lambda: replay_buffer_init(jax.random.key(0), 4, fresh, num_classes=0), "^num_classes"),
        (lambda: draw_badly(num=13), "^num must be at most the 12 slots of the replay.*num=13"),
        (lambda: draw_badly(num=0), "^num must be an integer of at least 1"),
        (lambda: draw_badly(num_classes=5), "^num_classes must divide"),
        (lambda: draw_badly(num=4, num_classes=4, labels=jnp.arange(4)),
         "^num must be at most the 3 slots of one class.*num=4"),
        (lambda: draw_badly(reinit_prob=1.1), "^reinit_prob must lie between 0 and 1"),
        (lambda: draw_badly(reinit_prob=-0.1), "^reinit_prob must lie between 0 and 1"),
        (lambda: draw_badly(start_fn=gaussian_start((2,))), r"^start_fn must be .*\(\).*\(2,\)"),
        (lambda: draw_badly(labels=jnp.zeros(3, int)), r"^labels must have shape .*\(4,\).*\(3,\)"),
        (lambda: draw_badly(labels=jnp.array([0, 0, 1, 0])), "^labels must lie in .*0 to 1"),
        (lambda: draw_badly(labels=jnp.array([0, -1, 0, 0])), "^labels must lie in .*-1 to 0"),
        (lambda: draw_badly(buffer=ReplayBuffer({"a": jnp.ones(3), "b": jnp.ones(4)})),
         "^buffer.positions must be arrays that share"),
        (lambda: replay_buffer_write(numbered_buffer(4), jnp.arange(2), jnp.zeros(3)),
         r"^positions must be one for each.*\(2,\), got \(3,\)"),
        (lambda: replay_buffer_write(numbered_buffer(4), jnp.arange(2), {"a": jnp.zeros(2)}),
         "^positions must be one for each"),
        (lambda: replay_buffer_write(numbered_buffer(4), jnp.int32(1), jnp.float32(0.0)),
         "^positions must be one for each entry of slots"),
    ],
)  # fmt: skip
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


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


def test_labels_that_are_no_integers():
    with pytest.raises(TypeError, match=r"^labels must be integers"):
        draw_badly(labels=jnp.zeros(4))


def test_shapes_are_checked_under_jit_too():
    with pytest.raises(ValueError, match=r"^num must be at most"):
        jax.jit(lambda: draw_badly(num=13).slots)()


def test_a_traced_label_out_of_range_reaches_no_slot():
    """Nor does it disturb the draws of the other labels, of which class 0 wants every slot."""
    buffer = numbered_buffer(8)

    @jax.jit
    def go(key, labels):
        draw = replay_buffer_draw(
            key, buffer, 4, fresh, num_classes=2, reinit_prob=0.0, labels=labels
        )
        return draw.slots, replay_buffer_write(buffer, draw.slots, jnp.full(4, -1.0))

    for seed in range(10):
        slots, written = go(jax.random.key(seed), jnp.array([0, -1, 5, 0]))
        assert slots[1] == slots[2] == 8
        taken = {int(slots[0]), int(slots[3])}
        assert len(taken) == 2
        assert taken <= {0, 1, 2, 3}
        assert set(np.flatnonzero(np.asarray(written.positions) == -1.0).tolist()) == taken


@pytest.mark.slow
def test_slots_and_labels_are_int32_also_where_64_bits_are_enabled():
    with jax.enable_x64(True):
        for labels in (None, jnp.array([0, 1, 1])):
            draw = replay_buffer_draw(
                jax.random.key(0), numbered_buffer(8), 3, fresh, num_classes=2, reinit_prob=0.5,
                labels=labels,
            )  # fmt: skip
            assert (draw.slots.dtype, draw.labels.dtype) == (jnp.int32, jnp.int32)
