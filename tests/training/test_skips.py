"""Messages about skipped steps, from the rows alone."""

import logging

import pytest

from ebmjax.training._skips import CAUSES, SkipWatch


def row(cause=0, consecutive=0, skipped=0):
    return {"skip_cause": cause, "consecutive_skipped": consecutive, "skipped": skipped}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_divergence_says_what_was_not_finite_and_since_when(cause):
    watch = SkipWatch(3, 10, 0, 0)
    watch(11, row())
    watch(12, row(cause, consecutive=1))
    watch(13, row(3, consecutive=2))  # what came first is told
    assert watch.divergence is None
    watch(14, row(3, consecutive=3))
    assert (watch.divergence.step, watch.divergence.first_skipped) == (14, 12)
    assert f"Since step 12: {CAUSES[cause]}." in str(watch.divergence)


def test_a_run_that_goes_on_diverged_repeats_what_came_first():
    watch = SkipWatch(3, 14, 5, 3, "the loss was not finite")
    assert "Since step 12: the loss was not finite." in str(watch.divergence)


def test_skipped_steps_warn_whenever_they_have_doubled(caplog):
    watch = SkipWatch(100, 0, 0, 0)
    with caplog.at_level(logging.WARNING):
        for step in range(1, 101):  # every fifth step, so never two in a row
            is_bad = step % 5 == 0
            watch(step, row(1 * is_bad, 1 * is_bad, step // 5))
    told = [record.getMessage() for record in caplog.records]
    assert [message.split()[1] for message in told] == ["5", "10", "20", "40", "80"]
    assert watch.divergence is None
