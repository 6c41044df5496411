import io
import math
import re
import sys
from types import SimpleNamespace

import pytest
from experiment_runs import scalars, tensorboard_events

from ebmjax.recipes.evaluators.result_tables import as_lines, evaluation_results, results
from ebmjax.recipes.run import tracking


class Clock:
    """Seconds that pass only when told."""

    now = 1000.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(tracking, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    return clock


def test_plain_lines_tell_rate_and_time_left(clock, capsys):
    lines = tracking.PlainLines(100)
    lines.start(0)
    lines.write(0, {"test_log_evidence": -3.0})
    clock.now += 3.5
    lines.write(20, {"loss": 12.3456})  # too soon
    assert capsys.readouterr().out == ""
    clock.now += 6.0
    lines.write(25, {"loss": 12.3456})
    # 5 steps in the 6 seconds since the first row, 75 left: what came before was compiling.
    assert capsys.readouterr().out == "step 25/100  loss 12.35  0.8 steps/s  about 90 s left\n"
    clock.now += 0.5
    lines.write(26, {"loss": 1.0})
    assert capsys.readouterr().out == ""
    clock.now += 0.1
    lines.write(100, {"loss": float("nan")})  # the last one always, numbers or not
    lines.close()
    assert capsys.readouterr().out == "step 100/100  loss nan  12.1 steps/s  about 0 s left\n"


def test_plain_lines_of_a_continued_run_count_from_where_it_continues(clock, capsys):
    lines = tracking.PlainLines(100)
    lines.start(60)
    clock.now += 10.0
    lines.write(80, {"loss": 1.0})
    assert capsys.readouterr().out == "step 80/100  loss 1\n"  # no pace to tell yet
    clock.now += 5.0
    lines.write(90, {"loss": 1.0})
    assert capsys.readouterr().out == "step 90/100  loss 1  2.0 steps/s  about 5 s left\n"


@pytest.mark.parametrize(("seconds", "left"), [(119, "119 s"), (150, "2.5 min"), (19800, "5.5 h")])
def test_plain_lines_tell_long_times_in_minutes_and_hours(seconds, left, clock, capsys):
    lines = tracking.PlainLines(100)
    lines.write(50, {"loss": 1.0})
    clock.now += seconds
    lines.write(75, {"loss": 1.0})
    assert capsys.readouterr().out.endswith(f"  about {left} left\n")


def test_what_is_measured_now_and_then_says_of_which_step_it_is(clock, capsys, monkeypatch):
    rows = [(0, {"test_accuracy": 0.1})]  # untrained
    for step, measured in ((10, {}), (20, {"test_accuracy": 0.75, "sample_fid": 9.0}), (30, {})):
        gap = {"log_density_gap": [1.0, 3.0]}
        rows.append((step, {"loss": 1.0, "accuracy": 0.5, **gap, **measured}))
    lines, terminal = tracking.PlainLines(100), Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = tracking.ProgressBar(100)
    bar.start(0)
    for step, row in rows:
        clock.now += 5.0
        lines.write(step, row)
        bar.write(step, row)
    bar.close()
    shown = [line.split("  ")[1:-2] for line in capsys.readouterr().out.splitlines()[1:]]
    now = ["loss 1", "accuracy 0.5", "test accuracy 0.75", "FID of samples 9", "gap 2"]
    fid = "FID of samples 9 (at 20)"
    later = ["loss 1", "accuracy 0.5", "test accuracy 0.75 (at 20)", fid, "gap 2"]
    assert shown == [now, later]
    assert "  ".join(later) in terminal.getvalue()


def test_a_line_has_fid_beside_what_it_is_compared_with(clock, capsys):
    lines = tracking.PlainLines(100)
    row = {"sample_fid": 39.21, "sample_fid_error": 4.03, "start_fid": 24.4, "start_fid_error": 3.3}
    lines.write(100, {"loss": 1.0, **row, "test_images_fid": 19.0})
    shown = capsys.readouterr().out
    assert "loss 1  FID of samples 39.2 ± 4.0 (starts 24.4 ± 3.3, test images 19)" in shown


def test_the_table_has_errors_and_names_the_features():
    row = {
        "sample_fid": 12.54,
        "sample_fid_error": 0.61,
        "start_fid": [20.0, 22.0],
        "start_fid_error": [1.0, 1.0],
        "fid_minus_starts": -8.46,
        "fid_minus_starts_low": -9.1,
        "fid_minus_starts_high": -7.82,
        "other": 3.0,
    }
    assert as_lines(results(row | {"extractor": "digits_features"})).splitlines() == [
        "  FID of samples (digits features)     12.54 ± 0.61",
        "  FID of the chains' starts            21.0 ± 1.0",
        "  samples minus starts, 95 % interval  -8.46 (-9.10 to -7.82)",
    ]


def scored(fid, error):
    return {"fid": fid, "fid_error": error}


REPORTS = {  # of each family the numbers that a table shows, in the places of its evaluation.json
    "joint": (
        {
            "classification": {"accuracy": 0.5},
            "generation": {
                "extractor": {"name": "classifier_features"},
                "buffer": scored(3.0, 0.5),
                "fresh": {
                    "starts": scored(9.0, 1.0),
                    "minus_starts": {"difference": -6.0, "low": -8.0, "high": -4.0},
                },
            },
        },
        [
            "test accuracy 0.5",
            "FID of the buffer (classifier features) 3.00 ± 0.50",
            "FID of their starts 9.0 ± 1.0",
            "fresh chains minus starts, 95 % interval -6.0 (-8.0 to -4.0)",
        ],
    ),
    "energy": (
        {"generation": {"buffer": scored(3.0, None)}, "energies": {"gap": -1.0}},
        ["FID of the buffer () 3", "energy of fresh chains less that of test images -1"],
    ),
    "latent": (  # two repeats
        {
            "generation": {
                "extractor": {"name": "random_features"},
                "fresh": {**scored([3.0, 5.0], [0.1, 0.3]), "rms_displacement": [2.0]},
                "gaussian": scored(8.0, 0.25),
                "test_images": scored(1.0, 0.25),
            }
        },
        [
            "FID of fresh chains (random features) 4.00 ± 0.20",
            "FID of Gaussians fitted to training images 8.00 ± 0.25",
            "FID of test images 1.00 ± 0.25",
            "RMS displacement of fresh chains 2",
        ],
    ),
}


@pytest.mark.parametrize("family", REPORTS)
def test_the_table_of_an_evaluation_has_the_main_numbers(family):
    report, expected = REPORTS[family]
    shown = as_lines(evaluation_results(report | {"step": 7}))
    assert [" ".join(line.split()) for line in shown.splitlines()] == expected


def test_a_number_that_could_not_be_measured_says_why(clock, capsys):
    """In lines and in the table, also where one of several models has none."""
    reason = "none (mass beyond the grid, or a density that is not finite)"
    for value in (float("nan"), [0.5, float("nan")]):
        lines = tracking.PlainLines(10)
        lines.write(10, {"loss": 1.0, "density_tv": value})
        assert f"total variation {reason}" in capsys.readouterr().out
        assert as_lines(results({"density_tv": value})).endswith(f"  {reason}")
    lines.write(10, {"loss": 1.0, "density_tv": [0.5, 0.25]})
    assert "total variation 0.375" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("first_step", [0, 5])
def test_the_bar_on_a_terminal(first_step, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = tracking.progress_writer(20)
    assert isinstance(bar, tracking.ProgressBar)
    bar.start(first_step)
    bar.write(first_step, {"test_log_evidence": -3.0})
    for step in range(first_step + 1, 21):
        bar.write(step, {"loss": 100.0 / step})
    bar.close()
    shown = terminal.getvalue().split("\r")
    assert f"| {first_step}/20 [" in shown[1]
    assert re.search(r"100%\|[█#]+\| 20/20 \[[\d:]+<[\d:]+, +[\d.]+step/s, loss 5\]\n$", shown[-1])


def test_plain_lines_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(tracking.progress_writer(20), tracking.PlainLines)


@pytest.mark.parametrize(
    "make", [lambda folder: tracking.ProgressBar(3), tracking.TensorBoardWriter]
)
def test_writers_that_never_started_can_be_closed(make, tmp_path):
    make(tmp_path).close()
    assert not list(tmp_path.iterdir())


def test_tensorboard_gets_lists_by_number(tmp_path):
    writer = tracking.TensorBoardWriter(tmp_path)
    writer.start(0)
    writer.write(0, {"loss": 1.5})
    writer.write(7, {"loss": -2.0, "energies": [0.25, math.nan, 3], "lists": [[0.25], [0.75]]})
    writer.close()
    ofs = {
        "loss": -2.0,
        "energies/0": 0.25,
        "energies/2": 3.0,
        "lists/0/0": 0.25,
        "lists/1/0": 0.75,
    }
    # One that is not finite is left out.
    assert scalars(tmp_path) == {("loss", 0): 1.5} | {(name, 7): x for name, x in ofs.items()}
    assert session_starts(tmp_path) == [0]


def session_starts(folder):
    """Steps from which TensorBoard is told to forget what earlier files say."""
    return [
        event.step
        for event in tensorboard_events(folder)
        if event.session_log.status == event.session_log.START
    ]


def test_tensorboard_forgets_what_came_after_the_step_a_run_continues_from(tmp_path):
    writer = tracking.TensorBoardWriter(tmp_path)
    writer.start(6)
    writer.write(7, {"loss": 1.0})
    writer.close()
    assert session_starts(tmp_path) == [7]


def test_files_of_one_second_are_all_kept(tmp_path):
    """A run that recovers at once has such files, and so have two sittings."""
    for number in range(3):
        writer = tracking.TensorBoardWriter(tmp_path)
        writer.start(number)
        writer.write(number + 1, {"loss": float(number)})
        writer.close()
    assert len(list(tmp_path.iterdir())) == 3
    assert {value for (_, _), value in scalars(tmp_path).items()} == {0.0, 1.0, 2.0}
