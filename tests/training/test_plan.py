"""The arithmetic of a run: every step once, borders that depend on the plan alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebmjax.training import Plan


def make_plan(**changes):
    return Plan(**({"total_steps": 23, "batch_size": 8, "steps_per_dispatch": 5} | changes))


@given(
    total=st.integers(1, 60), per_dispatch=st.integers(1, 70), stops=st.lists(st.integers(0, 60))
)
def test_blocks_of_any_sittings_are_those_of_the_whole_run(total, per_dispatch, stops):
    """A sitting that ends at a border goes on with the blocks of the run that nothing stopped."""
    plan = make_plan(total_steps=total, steps_per_dispatch=per_dispatch)
    whole = list(plan.blocks(0))
    assert [s for first, size in whole for s in range(first, first + size)] == [*range(total)]
    assert all(size <= per_dispatch for _, size in whole)
    borders = [first for first, _ in whole] + [total]
    for stop in stops:
        border = min(borders, key=lambda one: abs(one - stop))
        assert list(plan.blocks(border)) == [one for one in whole if one[0] >= border]


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


COUNTS = "total_steps batch_size num_shards steps_per_dispatch log_every max_consecutive_skips"


@pytest.mark.parametrize("name", COUNTS.split())
@pytest.mark.parametrize("value", [0, 1.5, "3", True, None])
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


@pytest.mark.parametrize("batch_size", [(), (8, 0), (8, 2.0)])
def test_streams_have_positive_sizes(batch_size):
    with pytest.raises(ValueError, match="batch_size must"):
        make_plan(batch_size=batch_size)
