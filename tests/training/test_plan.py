"""The arithmetic of a run: every step once, borders that depend on the plan alone."""

import pytest

from ebmjax.training import Plan


def make_plan(**changes):
    return Plan(**({"total_steps": 23, "batch_size": 8, "steps_per_dispatch": 5} | changes))


@pytest.mark.parametrize("first_step", range(24))
@pytest.mark.parametrize("per_dispatch", [1, 4, 5, 23, 100])
def test_blocks_take_every_step_once(first_step, per_dispatch):
    plan = make_plan(steps_per_dispatch=per_dispatch)
    steps = [s for first, size in plan.blocks(first_step) for s in range(first, first + size)]
    assert steps == list(range(first_step, 23))
    assert all(1 <= size <= per_dispatch for _, size in plan.blocks(first_step))


def test_blocks_from_a_border_are_those_of_the_whole_run():
    plan = make_plan()
    whole = list(plan.blocks(0))
    assert whole == [(0, 5), (5, 5), (10, 5), (15, 5), (20, 3)]
    for i, (first, _) in enumerate(whole):
        assert list(plan.blocks(first)) == whole[i:]
    assert list(plan.blocks(23)) == []


def test_a_longer_plan_rejoins_the_borders():
    # A run of 23 steps that is continued to 40 starts between two borders.
    assert list(make_plan(total_steps=40).blocks(23)) == [(23, 2), (25, 5), (30, 5), (35, 5)]


def test_what_is_due_when():
    plan = make_plan(log_every=4, monitor_every=10, checkpoint_every=5)
    assert [s for s in range(24) if plan.is_logged(s)] == [0, 4, 8, 12, 16, 20, 23]
    assert [s for s in range(24) if plan.is_monitored(s)] == [0, 10, 20, 23]
    assert [s for s in range(24) if plan.is_saved(s)] == [0, 5, 10, 15, 20, 23]


def test_zero_intervals_mean_never_but_the_end_is_saved():
    plan = make_plan()
    assert not any(plan.is_monitored(s) for s in range(24))
    assert [s for s in range(24) if plan.is_saved(s)] == [23]


def test_the_untrained_state_may_be_left_out():
    plan = make_plan(monitor_every=10, monitor_at_start=False)
    assert [s for s in range(24) if plan.is_monitored(s)] == [10, 20, 23]


@pytest.mark.parametrize(
    "name",
    [
        "total_steps",
        "batch_size",
        "num_shards",
        "steps_per_dispatch",
        "log_every",
        "max_consecutive_skips",
    ],
)
@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True, None])
def test_counts_start_at_one(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1"):
        make_plan(**{name: value})


def test_a_state_must_be_able_to_count_the_steps():
    with pytest.raises(ValueError, match=r"total_steps must be at most 2147483647, .*=2147483648"):
        make_plan(total_steps=2**31)
    assert make_plan(total_steps=2**31 - 1).total_steps == 2**31 - 1


@pytest.mark.parametrize("name", ["monitor_every", "checkpoint_every", "data_seed"])
@pytest.mark.parametrize("value", [-1, 2.0])
def test_intervals_and_seeds_start_at_zero(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 0"):
        make_plan(**{name: value})


@pytest.mark.parametrize("name", ["monitor_every", "checkpoint_every"])
def test_intervals_are_whole_dispatches(name):
    with pytest.raises(ValueError, match=f"{name} must be a multiple of steps_per_dispatch=5"):
        make_plan(**{name: 7})


@pytest.mark.parametrize("batch_size", [8, (8, 8), (6, 8)])
def test_shards_divide_the_batch_of_every_stream(batch_size):
    with pytest.raises(ValueError, match="batch_size must be a multiple of num_shards"):
        make_plan(num_shards=3, batch_size=batch_size)


def test_a_tuple_of_batch_sizes_means_streams():
    assert make_plan().streams == (8,)
    assert make_plan(batch_size=(8, 4), num_shards=4).streams == (8, 4)


@pytest.mark.parametrize("batch_size", [(), (8, 0), (8, 2.0)])
def test_streams_have_positive_sizes(batch_size):
    with pytest.raises(ValueError, match="batch_size must"):
        make_plan(batch_size=batch_size)
