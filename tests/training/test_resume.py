"""A run that was stopped or killed, and continued, is the run that was not."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from training_problems import chains, read_rows

from ebmjax.training import Checkpoints, JsonlWriter, Plan, fit, tree_digest

KEY = jax.random.key(11)
PLAN = Plan(
    total_steps=43,
    batch_size=16,
    num_shards=8,
    steps_per_dispatch=5,
    log_every=2,
    monitor_every=10,
    checkpoint_every=20,
)


def monitor(state, step):
    return {"mean_norm": np.linalg.norm(state.params["mean"]), "evaluated_at": step}


def sitting(folder, plan=PLAN, monitor=monitor, devices=None, signals=True):
    """One sitting of a run; the same call every time, as of the same command."""
    state, train_step, data = chains()
    writer = JsonlWriter(folder / "metrics.jsonl")
    try:
        return fit(
            KEY,
            state,
            train_step,
            data,
            plan,
            checkpoints=Checkpoints(folder / "checkpoints"),
            writers=[writer],
            monitor=monitor,
            devices=devices,
            signals=signals,
        )
    finally:
        writer.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing happened to: its result and its rows."""
    folder = tmp_path_factory.mktemp("whole")
    return sitting(folder), read_rows(folder / "metrics.jsonl")


def assert_same_run(result, rows, whole):
    assert tree_digest(result.state) == tree_digest(whole[0].state)
    assert rows == whole[1]
    assert result.row == whole[0].row
    assert result.signum is None


@pytest.mark.parametrize(("signum", "stop_at"), [(signal.SIGINT, 10), (signal.SIGTERM, 30)])
def test_a_signal_ends_the_block_and_the_run_continues(tmp_path, whole, signum, stop_at):
    def stop(state, step):
        if step == stop_at:
            os.kill(os.getpid(), signum)
        return monitor(state, step)

    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    stopped = sitting(tmp_path, monitor=stop)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert stopped.signum == signum
    assert int(stopped.state.step) == stop_at
    assert stopped.row["evaluated_at"] == stop_at
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert rows == [row for row in whole[1] if row["step"] <= stop_at]

    result = sitting(tmp_path)
    assert_same_run(result, read_rows(tmp_path / "metrics.jsonl"), whole)
    assert result.wall_seconds > stopped.wall_seconds
    assert result.compile_seconds > stopped.compile_seconds


def test_a_fit_that_handles_no_signals_leaves_them_to_the_program(tmp_path):
    class Stopped(BaseException):
        pass

    def stop(*_):
        raise Stopped

    def kill(state, step):
        if step == 10:
            os.kill(os.getpid(), signal.SIGTERM)
        return {}

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(Stopped):
            sitting(tmp_path, monitor=kill, signals=False)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_interrupt_does_not_wait(tmp_path):
    def insist(state, step):
        if step == 10:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return {}

    with pytest.raises(KeyboardInterrupt):
        sitting(tmp_path, monitor=insist)


def test_an_error_between_checkpoints_costs_only_the_steps_since(tmp_path, whole):
    def fail(state, step):
        if step == 30:
            raise OSError("no space left on device")
        return monitor(state, step)

    with pytest.raises(OSError, match="no space"):
        sitting(tmp_path, monitor=fail)
    evaluated = []

    def watch(state, step):
        evaluated.append(step)
        return monitor(state, step)

    result = sitting(tmp_path, monitor=watch)
    assert evaluated == [30, 40, 43]  # continued from 20, without evaluating there again
    assert_same_run(result, read_rows(tmp_path / "metrics.jsonl"), whole)


def test_a_finished_run_only_reports(tmp_path, whole):
    first = sitting(tmp_path)
    again = sitting(tmp_path, monitor=lambda state, step: pytest.fail("nothing is left to do"))
    assert_same_run(again, read_rows(tmp_path / "metrics.jsonl"), whole)
    assert again.compile_seconds == first.compile_seconds
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        _, meta = checkpoints.restore_latest(chains()[0])
    assert again.wall_seconds == meta["seconds"]["wall"] > first.compile_seconds


SCRIPT = """
    import sys, time
    from dataclasses import replace
    from pathlib import Path

    import jax

    sys.path[:0] = {paths!r}
    jax.config.update("jax_compilation_cache_dir", {cache!r})
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    from test_resume import PLAN, sitting

    from ebmjax.training import tree_digest

    def monitor(state, step):
        time.sleep(float(sys.argv[2]))
        return {{}}

    every = {{"steps_per_dispatch": 2, "log_every": 1, "monitor_every": 2, "checkpoint_every": 10}}
    result = sitting(Path(sys.argv[1]), replace(PLAN, total_steps=240, **every), monitor)
    print(result.signum, int(result.state.step), tree_digest(result.state))
"""


class Run:
    """A training script in a process of its own, and its folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.sittings = []
        folder.mkdir()
        paths = [str(path) for path in Path(__file__).parents[:2]]
        cache = jax.config.jax_compilation_cache_dir
        self._script = folder / "train.py"
        self._script.write_text(textwrap.dedent(SCRIPT.format(paths=paths, cache=cache)))

    def start(self, pause=0.0):
        root = Path(__file__).parents[2]
        process = subprocess.Popen(
            [sys.executable, str(self._script), str(self.folder), str(pause)],
            env=os.environ | {"PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.sittings.append(process)
        return process

    def rows(self):
        return read_rows(self.folder / "metrics.jsonl")

    def num_lines(self):
        path = self.folder / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    def send(self, signum, at_line, delay):
        """Signals a sitting once it has logged ``at_line`` rows and ``delay`` seconds passed."""
        process = self.start(pause=0.01)
        deadline = time.monotonic() + 240
        while self.num_lines() < at_line and time.monotonic() < deadline:
            assert process.poll() is None, "the sitting ended before it was interrupted"
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(signum)
        return process.wait(timeout=240), process.communicate()[0]


@pytest.fixture
def runs(tmp_path):
    runs = Run(tmp_path / "whole"), Run(tmp_path / "interrupted")
    yield runs
    for process in runs[0].sittings + runs[1].sittings:
        process.kill()
        process.wait()
        process.stdout.close()


# What one signal does: above, and in tests/recipes/run/test_interruption.py.
@pytest.mark.slow
def test_killed_at_random_and_continued_is_bitwise_the_same(runs):
    whole, interrupted = runs
    reference = whole.start()
    seed = time.time_ns()
    print("seed", seed)
    chance = random.Random(seed)
    line = 0
    for signum in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        # Each sitting first cuts the rows past its checkpoint, at most 20 steps before its end.
        line += chance.randint(24, 44)
        returncode, output = interrupted.send(signum, line, delay=chance.uniform(0, 0.05))
        if signum == signal.SIGKILL:
            assert returncode == -signal.SIGKILL
        else:
            assert returncode == 0
            assert output.split()[0] == str(int(signum))
        assert interrupted.rows()[-1]["step"] < 240
    last = interrupted.start()
    expected, got = reference.communicate(timeout=240)[0], last.communicate(timeout=240)[0]
    assert expected.split()[:2] == ["None", "240"]
    assert got == expected
    assert interrupted.rows() == whole.rows()
    assert [row["step"] for row in whole.rows()] == list(range(241))
