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
    never = make_plan()
    assert not any(never.is_monitored(s) for s in range(24))
    assert [s for s in range(24) if never.is_saved(s)] == [23]
    trained = make_plan(monitor_every=10, monitor_at_start=False)
    assert [s for s in range(24) if trained.is_monitored(s)] == [10, 20, 23]


WRONG = {
    "total_steps": (0, 1.5, True, None, 2**31),
    "batch_size": (0, (), (8, 0), (8, 2.0), (6, 8), 9),
    "num_shards": (0,),
    "steps_per_dispatch": (0, "3"),
    "log_every": (0,),
    "max_consecutive_skips": (0,),
    "monitor_every": (-1, 2.0, 7),
    "checkpoint_every": (-1, 2.0, 7),
    "data_seed": (-1, 2.0),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, some in WRONG.items() for v in some])
def test_what_a_plan_cannot_be_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        make_plan(**{"num_shards": 4, name: value})
