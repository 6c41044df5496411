"""The runs of a study: their CPUs, and what a signal does to them."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from experiment_runs import EXPERIMENTS, last_step, wait_until
from linear_family import LINEAR, hold

from ebmjax.recipes.study import jobs as study_jobs
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.jobs import Running, run_each, shares
from experiments.configs import thermo_digits

CONFIG = thermo_digits.get_config()

# Says that it runs, and on SIGTERM that it was asked to stop, once it has taken its time.
PATIENT = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(*_):
    time.sleep(0.3)
    (folder / "asked").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
(folder / "running").touch()
time.sleep(60)
"""


@pytest.fixture
def heeds_ctrl_c():
    """A process that a shell starts in the background begins with SIGINT ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no processes")
def test_a_run_keeps_to_its_cpus(tmp_path, monkeypatch):
    (tmp_path / "row").mkdir()
    write_affinity = (
        "import json, os, sys, time; time.sleep(0.2); "
        "json.dump({'cpus': sorted(os.sched_getaffinity(0))}, open(sys.argv[1], 'w'))"
    )
    path = tmp_path / "row" / "evaluation.json"
    cell = Cell(
        "row", 0, tmp_path / "row", [sys.executable, "-c", write_affinity, str(path)], CONFIG
    )
    last = max(os.sched_getaffinity(0))
    monkeypatch.setattr(study_jobs, "shares", lambda num_jobs: [[last]])
    told = []
    run_each([cell], 1, lambda cell, status: told.append(status))
    assert told == ["done"]
    assert json.loads(path.read_text()) == {"cpus": [last]}


def test_a_run_that_diverges_before_it_has_a_folder_counts_and_the_next_one_starts(tmp_path):
    """Only its last words tell that it diverged, as with a pilot run."""
    words = "import sys; sys.exit('error: Training diverged: in the pilot')"
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('{}')"
    (tmp_path / "b").mkdir()
    path = tmp_path / "b" / "evaluation.json"
    cells = [
        Cell("a", 0, tmp_path / "a", [sys.executable, "-c", words], CONFIG),
        Cell("b", 0, tmp_path / "b", [sys.executable, "-c", write, str(path)], CONFIG),
    ]
    told = []
    run_each(cells, 1, lambda cell, status: told.append((cell.label, status)))
    assert told == [("a", "diverged"), ("b", "done")]
    assert "in the pilot" in (tmp_path / "a" / "diverged.txt").read_text()
    cells[0].check()  # it says of what configuration it was


def test_a_share_comes_back_from_a_run_that_cannot_begin(tmp_path):
    cells = [Cell(name, 0, tmp_path / name, [str(tmp_path / "nothing")], CONFIG) for name in "abc"]
    with pytest.raises(FileNotFoundError):
        run_each(cells, 1, lambda cell, status: None)


def test_jobs_share_out_the_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: None, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 4, 7, 9}, raising=False)
    assert shares(1) == [[]]
    assert shares(2) == [[0, 4, 9], [3, 7]]
    assert shares(7) == [[0], [3], [4], [7], [9], [0], [3]]


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_waits_for_the_runs_and_starts_no_more(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    made = [
        Cell(folder.name, 0, folder, [sys.executable, "-c", PATIENT, str(folder)], CONFIG)
        for folder in folders
    ]
    for folder in folders:
        folder.mkdir()

    def interrupt():
        wait_until(lambda: all((folder / "running").exists() for folder in folders[:2]))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    told = []
    with pytest.raises(KeyboardInterrupt):
        run_each(made, 2, lambda cell, status: told.append((cell.label, status)))
    assert sorted(told) == [(name, "interrupted") for name in "ab"]
    found = {folder.name: {path.name for path in folder.iterdir()} for folder in folders}
    assert found == {"a": {"running", "asked"}, "b": {"running", "asked"}, "c": set()}


def test_a_run_that_begins_while_the_others_are_stopped_is_stopped_too():
    """Between two cells a worker has a moment in which it runs nothing."""
    running = Running()
    running.stop()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        running.add(process)
        assert process.wait(timeout=30) == -signal.SIGTERM


# A run of ``PATIENT`` as a study starts it, so that it watches for the study's end.
WATCHED = f"""
import threading
from ebmjax.recipes.__main__ import stop_with_stdin
threading.Thread(target=stop_with_stdin, daemon=True).start()
{PATIENT}
"""
# Two jobs at a time, as ``study.py --jobs=2`` runs them.
JOBS = """
import pathlib, sys
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.jobs import run_each
from experiments.configs import thermo_digits
config, code, *folders = thermo_digits.get_config(), *sys.argv[1:]
cells = [Cell(f, 0, pathlib.Path(f), [sys.executable, "-c", code, f], config) for f in folders]
run_each(cells, len(cells), print, lambda cell, line: None)
"""


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_runs_stop_when_their_study_is_killed(num_jobs, tmp_path):
    """Also by a signal that nothing can catch. As at a SIGTERM, they have time to save."""
    folders = [tmp_path / name for name in "ab"[:num_jobs]]
    for folder in folders:
        folder.mkdir()
    study = subprocess.Popen([sys.executable, "-c", JOBS, WATCHED, *map(str, folders)])
    wait_until(lambda: all((folder / "running").exists() for folder in folders))
    study.kill()
    study.wait()
    wait_until(lambda: all((folder / "asked").exists() for folder in folders), 60)


def test_lines_of_a_run_are_heard_and_its_command_knows_its_study(tmp_path):
    code = (
        "import os, sys; print(); print('step 5', os.environ['EBMJAX_STOPS_WITH_STDIN'])\n"
        "print('x' * 10**6, file=sys.stderr); print('step 6', flush=True); sys.exit(3)"
    )
    cell = Cell("a", 0, tmp_path / "a", [sys.executable, "-c", code], CONFIG)
    told, heard = [], []
    run_each(
        [cell], 1, lambda cell, status: told.append(status), lambda cell, line: heard.append(line)
    )
    assert told == ["failed with exit code 3: " + "x" * 400]
    assert heard == ["starting", "step 5 1", "step 6", ""]


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_stops_a_study_and_its_run(tmp_path, signum):
    row = [f"{LINEAR}:long", f"--config.data.path={tmp_path}"]
    (tmp_path / "small.py").write_text(
        "from ebmjax.recipes.study import Study\n"
        f"STUDY = Study({{'row': {row!r}}}, {{'seconds': ('run_seconds', 1.0, 0)}})\n"
    )
    hold(tmp_path, 14)
    command = [sys.executable, str(EXPERIMENTS / "study.py"), "--study=small.py", "--folder=all"]
    study = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    workdir = tmp_path / "all" / "row" / "seed0"
    waits = workdir / "plots" / "weight_000014.txt"
    wait_until(lambda: waits.exists() or study.poll() is not None)
    study.send_signal(signum)
    if signum == signal.SIGKILL:
        study.wait()
    (tmp_path / "hold").unlink()
    _, errors = study.communicate(timeout=200)
    if signum == signal.SIGTERM:
        assert study.returncode == 143
        assert errors == "Interrupted, and so are its runs. The same command continues.\n"
    # The run has saved what it had and is gone: nothing is added to its rows.
    wait_until(lambda: (workdir / "checkpoints" / str(last_step(workdir))).is_dir())
    step = last_step(workdir)
    assert 14 <= step < 120
    assert (workdir / "checkpoints" / str(step)).is_dir()
    assert not (workdir / "summary.json").exists()
