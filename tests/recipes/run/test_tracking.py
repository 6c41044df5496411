"""Lines and TensorBoard show a run's numbers, each of them once."""

import math
from types import SimpleNamespace

import pytest
from experiment_runs import scalars, tensorboard_events

from ebmjax.recipes.run import tracking


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when told."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(tracking, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_lines_tell_rate_and_time_left(clock, capsys):
    lines = tracking.Progress(100)
    lines.write(0, {"test_log_evidence": -3.0})
    clock.now += 3.5
    lines.write(20, {"loss": 12.3456})  # too soon
    assert capsys.readouterr().out == ""
    clock.now += 6.0
    lines.write(25, {"loss": 12.3456})
    # 5 steps in the 6 seconds since the first row, 75 left: what came before was compiling.
    line = "step 25/100  loss 12.35  0.8 steps/s  about 90 s left\n"
    assert capsys.readouterr().out == line
    lines.write(30, {"loss": 1.0, "sample_fid": 39.2})  # measured: always
    lines.write(100, {"loss": float("nan")})  # the last one always, numbers or not
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_tensorboard_gets_finite_numbers_and_lists(tmp_path):
    writer = tracking.TensorBoardWriter(tmp_path)
    writer.start(0)
    writer.write(0, {"loss": 1.5})
    writer.write(7, {"loss": -2.0, "energies": [0.25, math.nan, 3], "lists": [[0.25]]})
    writer.close()
    ofs = {"loss": -2.0, "energies/0": 0.25, "energies/2": 3.0, "lists/0/0": 0.25}
    assert scalars(tmp_path) == {("loss", 0): 1.5} | {(name, 7): x for name, x in ofs.items()}


def test_tensorboard_forgets_what_came_after_the_step_a_run_continues_from(tmp_path):
    for number in range(3):  # of one second
        writer = tracking.TensorBoardWriter(tmp_path)
        writer.start(6 * number)
        writer.write(6 * number + 1, {"loss": float(number)})
        writer.close()
    assert len(list(tmp_path.iterdir())) == 3
    events = [e for e in tensorboard_events(tmp_path) if e.session_log.status]
    assert sorted(e.step for e in events) == [0, 7, 13]
