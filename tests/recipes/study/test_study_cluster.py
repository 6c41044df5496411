"""The runs of a study as jobs: submitit's local executor stands in for a cluster."""

import os
import signal
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import submitit
from experiment_runs import wait_until

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study import cluster
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.cluster import CellJob, executor_of, run_on
from experiments.configs import thermo_digits

CONFIG = thermo_digits.get_config()

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1], 'evaluation.json').write_text('{}')"
# The first sitting saves on SIGTERM and ends; the second one finds what was saved.
TWO_SITTINGS = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
if (folder / "saved").exists():
    (folder / "evaluation.json").write_text("{}")
    sys.exit()
def stop(*_):
    time.sleep(0.3)
    (folder / "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
(folder / "job.tmp").write_text(str(os.getppid()))
(folder / "job.tmp").rename(folder / "job")
time.sleep(60)
"""


def cell(folder, label, code):
    (folder / label).mkdir()
    command = [sys.executable, "-c", code, str(folder / label)]
    return Cell(label, 0, folder / label, command, CONFIG)


@pytest.fixture
def local(tmp_path, monkeypatch):
    """Submitit's executor on this machine, its jobs with the path of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="local")
    executor.update_parameters(timeout_min=5)
    return executor


def statuses(executor, all_cells):
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "POLL_SECONDS", 0.05)
        run_on(executor, all_cells, lambda c, status: told.update({c.label: status}))
    return told


def test_every_missing_cell_is_a_job(local, tmp_path):
    made = [
        cell(tmp_path, "whole", WRITE),
        cell(tmp_path, "fails", "import sys; sys.exit('no such file')"),
        cell(tmp_path, "old", "never run"),
    ]
    (tmp_path / "old" / "evaluation.json").write_text("{}")
    told = statuses(local, made)
    assert told.pop("fails") == "failed with exit code 1: no such file"
    assert told == {"whole": "done", "old": "done"}


@pytest.mark.slow
def test_a_preempted_job_saves_and_is_queued_again(local, tmp_path):
    job = tmp_path / "two" / "job"

    def preempt():
        wait_until(job.exists)
        os.kill(int(job.read_text()), signal.SIGUSR2)  # what submitit has Slurm send

    preempting = threading.Thread(target=preempt)
    made = [cell(tmp_path, "two", TWO_SITTINGS)]
    preempting.start()
    assert statuses(local, made) == {"two": "done"}
    preempting.join()
    assert (tmp_path / "two" / "saved").exists()


def test_a_job_of_several_tasks_runs_nothing(tmp_path, monkeypatch):
    """Whatever gave it several: each task would run the cell, in the same folder."""
    job = CellJob(cell(tmp_path, "one", WRITE))
    monkeypatch.setenv("SLURM_NTASKS", "32")
    with pytest.raises(ConfigError, match="a run is one task"):
        job()
    assert job.cell.status == "missing"
    monkeypatch.setenv("SLURM_NTASKS", "1")
    assert job() == "done"


def test_a_job_is_queued_again_only_after_its_run_has_saved(tmp_path):
    """Slurm ends a job as soon as it is queued again."""
    job = CellJob(cell(tmp_path, "two", TWO_SITTINGS))
    sitting = threading.Thread(target=job)
    sitting.start()
    wait_until((tmp_path / "two" / "job").exists)
    following = job.checkpoint()
    assert (tmp_path / "two" / "saved").exists()
    sitting.join()
    assert following.function() == "done"


def test_ctrl_c_cancels_the_jobs(tmp_path):
    canceled = []

    class Job:
        def done(self):
            raise KeyboardInterrupt

        def cancel(self, check):
            canceled.append(self)

    executor = SimpleNamespace(batch=nullcontext, submit=lambda job: Job())
    with pytest.raises(KeyboardInterrupt):
        statuses(executor, [cell(tmp_path, label, WRITE) for label in "ab"])
    assert len(set(canceled)) == 2


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch):
    """Commands of Slurm that are there; sbatch keeps the script that it is given."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {
        "srun": "",
        "sbatch": f'cp "$1" {tools}/script; echo Submitted batch job 7',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tools


def test_options_of_sbatch_are_passed_on(fake_slurm, tmp_path):
    options = ["time=90", "partition=gpu", "mem=16G", "gres=gpu:1", "some-new=option"]
    arguments = ["--config.seed=0", *(f"--slurm.{option}" for option in options)]
    executor = executor_of("slurm", tmp_path / "slurm", 2, arguments)
    with executor.batch():
        jobs = [executor.submit(print, number) for number in range(3)]
    assert [job.job_id for job in jobs] == ["7_0", "7_1", "7_2"]
    script = (fake_slurm / "script").read_text()
    for line in [*options, "array=0-2%2", "job-name=ebmjax", "signal=USR2@90"]:
        assert f"#SBATCH --{line}\n" in script, line
    assert (tmp_path / "slurm") in Path(script.split("--output ")[1].split()[0]).parents


def test_a_refused_job_is_said(fake_slurm, tmp_path):
    (fake_slurm / "sbatch").write_text("#!/bin/sh\necho invalid partition >&2; exit 1\n")
    executor = executor_of("slurm", tmp_path / "slurm", None, ["--slurm.time=5"])
    with pytest.raises(ConfigError, match=r"cannot be submitted: .*invalid partition"):
        statuses(executor, [cell(tmp_path, "one", WRITE)])


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("slurm", [], "needs --slurm.time=MINUTES"),
        ("slurm", ["--slurm.time=1:30:00"], "needs --slurm.time=MINUTES"),
        ("slurm", ["--slurm.time=5"], "needs Slurm and .*srun"),
        ("local", ["--slurm.time=5"], "--slurm.time=5 has no effect without --executor=slurm"),
    ],
)
def test_mistakes_are_named(name, arguments, message, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        executor_of(name, tmp_path / "slurm", None, arguments)


def test_without_submitit_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ConfigError, match=r'pip install "ebmjax\[slurm\]": .*submitit'):
        executor_of("slurm", tmp_path, None, ["--slurm.time=5"])
    assert executor_of("local", tmp_path, 2, []) is None
