"""Messages about skipped steps, from the rows alone."""

import logging

import numpy as np
import pytest

from ebmjax._shown import SEE_FAQ
from ebmjax.training._skips import SkipWatch

NAN = float("nan")


def row(cause=0, consecutive=0, **metrics):
    return {"loss": 1.0, "consecutive_skipped": consecutive, "skip_cause": cause, **metrics}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"cause": 1, "loss": NAN}, "the loss was not finite."),
        ({"cause": 1, "loss": NAN, "cross_entropy": NAN, "energies": [1.0, np.inf], "kl": 3.0},
         "the loss was not finite (nor were the metrics cross_entropy, energies)."),
        ({"cause": 2, "gradient_norm": np.inf},
         "the gradient was not finite (nor were the metrics"),
        ({"cause": 3, "loss": 1e9}, "the loss was beyond max_abs_loss."),
        ({"cause": 4}, "the updated parameters were not finite."),
        ({"cause": [0, 2]}, "the gradient was not finite."),
        ({"cause": 1, **{f"m{i:02}": NAN for i in range(30)}}, "m06, m07, ...)."),
    ],
)  # fmt: skip
def test_a_divergence_says_what_was_not_finite_and_since_when(metrics, expected):
    watch = SkipWatch(3, 10, 0, 0, {})
    watch(11, row())
    watch(12, row(consecutive=1, **metrics))
    watch(13, row(consecutive=2, cause=3))  # what came first is told
    assert watch.divergence is None
    watch(14, row(consecutive=3, cause=3))
    message = str(watch.divergence)
    assert "the last 3 steps, up to step 14" in message
    assert "Since step 12: the " in message
    assert expected in message
    assert message.endswith(f". {SEE_FAQ}")
    assert len(message) < 930


def test_a_run_that_goes_on_diverged_repeats_what_its_last_row_says():
    watch = SkipWatch(3, 14, 5, 3, row(cause=2, consecutive=3))
    assert "Since step 12: the gradient was not finite." in str(watch.divergence)
    watch = SkipWatch(3, 14, 5, 3, row(cause=2, consecutive=3), "the loss was not finite")
    assert watch.divergence is not None
    assert watch.divergence.reason == "the loss was not finite"  # what came first


def test_repeats_diverge_from_the_first_that_was_skipped_on():
    watch = SkipWatch(3, 14, [9, 5], [7, 3], {})
    assert watch.divergence is not None
    assert (watch.divergence.step, watch.divergence.first_skipped) == (14, 8)


def test_skipped_steps_warn_whenever_they_have_doubled(caplog):
    watch = SkipWatch(100, 0, 0, 0, {})
    with caplog.at_level(logging.WARNING):
        for step in range(1, 101):  # every fifth step, so never two in a row
            is_bad = step % 5 == 0
            watch(step, row(cause=1 * is_bad, consecutive=1 * is_bad))
    told = [record.getMessage() for record in caplog.records]
    assert [message.split()[1] for message in told] == ["5", "10", "20", "40", "80"]
    assert "the loss was not finite. So far 16 of 80 steps were skipped; 100 in a row" in told[-1]
    assert watch.divergence is None


def test_one_of_several_models_warns_and_ends_nothing(caplog):
    watch = SkipWatch(2, 0, 0, 0, {})
    for step in (1, 2, 3):
        watch(step, row(cause=[0, 3], consecutive=0))
    assert "1 of 1 steps were skipped in the repeat or model with most" in caplog.text
    assert "2 of 2 steps" in caplog.text
    assert watch.divergence is None
