"""The runs of a study: processes on their CPUs, and what a signal does to them."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from experiment_runs import EXPERIMENTS, last_step, wait_until
from linear_family import LINEAR, hold

from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.jobs import run_here, share_cpus
from experiments.configs import thermo_digits

CONFIG = thermo_digits.get_config()
WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1], 'evaluation.json').write_text('{}')"
# Says that it runs. On SIGTERM it takes its time to save; the next sitting finds what was saved.
PATIENT = """
import os, pathlib, signal, sys, threading, time
from ebmjax.recipes.__main__ import stop_with_stdin
folder = pathlib.Path(sys.argv[1])
if (folder / "saved").exists():
    (folder / "evaluation.json").write_text("{}")
    sys.exit()
def stop(*_):
    time.sleep(0.3)
    (folder / "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
threading.Thread(target=stop_with_stdin, daemon=True).start()
(folder / "parent").write_text(str(os.getppid()))
(folder / "parent").rename(folder / "running")
time.sleep(60)
"""


def cell(folder, label, code):
    (folder / label).mkdir()
    command = [sys.executable, "-c", code, str(folder / label)]
    return Cell(folder / label, label, 0, command, CONFIG)


def statuses(num_jobs, all_cells):
    """Label to status."""
    told = {}

    def tell(one, status):
        told[one.label] = status

    run_here(num_jobs, all_cells, tell, lambda one, line: None)
    return told


def test_jobs_share_out_the_cpus(monkeypatch):
    bound = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 4, 7, 9}, raising=False)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda pid, cpus: bound.append(cpus), raising=False
    )
    for number in (1, 2, 7):
        bind = share_cpus(number)
        for _ in range(number):
            bind()
    assert bound == [
        *[[0, 3, 4, 7, 9]],
        *[[3, 7], [0, 4, 9]],
        *[[3], [0], [9], [7], [4], [3], [0]],
    ]


def test_a_run_that_diverges_counts_and_the_next_one_starts(tmp_path):
    """Only its last words tell that it diverged."""
    words = "import sys; sys.exit('error: Training diverged: at step 3')"
    made = [cell(tmp_path, "a", words), cell(tmp_path, "b", WRITE)]
    assert statuses(1, made) == {"a": "diverged", "b": "done"}
    assert "at step 3" in (tmp_path / "a" / "diverged.txt").read_text()


def test_lines_of_a_run_are_heard_and_its_command_knows_its_study(tmp_path):
    code = (
        "import os, sys; print(); print('step 5', os.environ['EBMJAX_STOPS_WITH_STDIN'])\n"
        "print('x' * 10**6, file=sys.stderr); print('step 6', flush=True); sys.exit(3)"
    )
    told, heard = [], []
    run_here(
        1,
        [cell(tmp_path, "a", code)],
        lambda cell, status: told.append(status),
        lambda cell, line: heard.append(line),
    )
    assert told == ["failed with exit code 3: " + "x" * 400]
    assert heard == ["", "step 5 1", "step 6"]


def test_a_command_that_cannot_begin_ends_the_study(tmp_path):
    made = [Cell(tmp_path / name, name, 0, [str(tmp_path / "none")], CONFIG) for name in "abc"]
    with pytest.raises(FileNotFoundError):
        statuses(1, made)


@pytest.fixture
def heeds_ctrl_c():
    """A process that a shell starts in the background begins with SIGINT ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_waits_for_the_runs_and_starts_no_more(tmp_path):
    made = [cell(tmp_path, label, PATIENT) for label in "abc"]

    def interrupt():
        wait_until(lambda: all((tmp_path / label / "running").exists() for label in "ab"))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        statuses(2, made)
    found = {label: {path.name for path in (tmp_path / label).iterdir()} for label in "abc"}
    assert found == {"a": {"running", "saved"}, "b": {"running", "saved"}, "c": set()}


# Two jobs at a time, as ``study.py --jobs=2`` runs them.
JOBS = """
import pathlib, sys
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.jobs import run_here
from experiments.configs import thermo_digits
config, code, *folders = thermo_digits.get_config(), *sys.argv[1:]
cells = [Cell(pathlib.Path(f), f, 0, [sys.executable, "-c", code, f], config) for f in folders]
run_here(len(cells), cells, print, print)
"""


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_runs_stop_when_their_study_is_killed(num_jobs, tmp_path):
    """Also by a signal that nothing can catch. As at a SIGTERM, they have time to save."""
    folders = [tmp_path / name for name in "ab"[:num_jobs]]
    for folder in folders:
        folder.mkdir()
    study = subprocess.Popen([sys.executable, "-c", JOBS, PATIENT, *map(str, folders)])
    wait_until(lambda: all((folder / "running").exists() for folder in folders))
    study.kill()
    study.wait()
    wait_until(lambda: all((folder / "saved").exists() for folder in folders), 60)


@pytest.mark.slow
def test_sigterm_stops_a_study_and_its_run(tmp_path):
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
    study.terminate()
    (tmp_path / "hold").unlink()
    _, errors = study.communicate(timeout=200)
    assert study.returncode == 130
    assert errors == "error: interrupted, and so are its runs. The same command continues.\n"
    # The run has saved what it had and is gone: nothing is added to its rows.
    wait_until(lambda: (workdir / "checkpoints" / str(last_step(workdir))).is_dir())
    step = last_step(workdir)
    assert 14 <= step < 120
    assert (workdir / "checkpoints" / str(step)).is_dir()
    assert not (workdir / "summary.json").exists()
