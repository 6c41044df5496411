"""Runs the cells of a study: on a share of the CPUs each, or as jobs of Slurm by submitit."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from ebmjax.recipes.__main__ import STOPS_WITH_STDIN
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study.cells import DIVERGED, Cell

SLURM = "--slurm."  # beginning of arguments that are options of sbatch
MAX_TIMEOUTS = 100  # sittings of a run that reach the time limit before its job is given up
POLL_SECONDS = 10.0

Told = Callable[[Cell, str], None]
RunEach = Callable[[Sequence[Cell], Told, Told], None]
"""``run_each(cells, tell, hear)`` runs missing cells. ``tell`` takes a cell and its status,
``hear`` a cell and a line that its run prints."""


def run_here(num_jobs: int, all_cells: Sequence[Cell], tell: Told, hear: Told) -> None:
    """Runs cells, ``num_jobs`` at the same time, each on its share of the CPUs.

    An exception that ends this early, such as Ctrl-C, is raised again after the runs have stopped.
    """
    stdin, held = os.pipe()
    with ThreadPoolExecutor(num_jobs, initializer=share_cpus(num_jobs)) as pool:
        jobs = {pool.submit(CellJob(cell, stdin, partial(hear, cell))): cell for cell in all_cells}
        try:
            for job in as_completed(jobs):
                tell(jobs[job], job.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            os.close(held)  # on which runs save and stop, also one that begins just now
    os.close(stdin)


def share_cpus(num_jobs: int) -> Callable[[], None]:
    """Returns what binds a thread and its processes to a share of the CPUs, if they can be bound.

    Runs on separate CPUs finish sooner than runs that share them all.
    """
    if not hasattr(os, "sched_setaffinity"):
        return lambda: None
    cpus = sorted(os.sched_getaffinity(0))
    shares = [cpus[job % len(cpus) :: num_jobs] for job in range(num_jobs)]
    return lambda: os.sched_setaffinity(0, shares.pop())


class CellJob:
    """Runs the command of a missing cell when it is called, here or on a cluster's machine.

    The run saves and stops when ``stdin`` ends; without one that is at ``checkpoint``. ``hear``
    takes the lines that it prints.
    """

    def __init__(self, cell: Cell, stdin: int | None = None, hear: Callable[[str], Any] = print):
        self.cell, self.stdin, self.hear = cell, stdin, hear
        self.process: Any = None

    def __call__(self) -> str:
        """Returns the cell's status, or the last lines of an error."""
        cell, stdin = self.cell, self.stdin
        if cell.status != "missing":
            return cell.status
        if stdin is None:
            stdin, self.held = os.pipe()
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            pipes: Any = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": file}
            pipes |= {"env": os.environ | {STOPS_WITH_STDIN: "1"}, "errors": "replace"}
            with subprocess.Popen(cell.command, **pipes) as self.process:
                for line in self.process.stdout or ():
                    self.hear(line.strip())
                self.process.wait()
            file.seek(0)
            errors = file.read()
        if "Training diverged" in errors:
            (cell.folder / DIVERGED).write_text(errors)
        if cell.status == "missing":
            return f"failed with exit code {self.process.returncode}: {errors.strip()[-400:]}"
        return cell.status

    def checkpoint(self) -> Any:
        """Stops the run, which saves, at a preemption; returns the job that continues it."""
        from submitit.helpers import DelayedSubmission

        os.close(self.held)
        if self.process:
            self.process.wait()
        return DelayedSubmission(CellJob(self.cell))


def make_executor(folder: Path, num_jobs: int | None, arguments: Sequence[str]) -> Any:
    """Returns submitit's executor for Slurm with options of sbatch, and with logs in ``folder``."""
    pairs = (argument.removeprefix(SLURM).partition("=") for argument in arguments)
    options = {name: value for name, _, value in pairs}
    minutes = options.pop("time", "")
    if not minutes.isdecimal():
        raise ConfigError("--executor=slurm needs --slurm.time=MINUTES, the limit of a sitting.")
    try:
        import submitit

        folder /= os.urandom(16).hex()  # what lies there is unpickled, so nobody may know the name
        executor = submitit.AutoExecutor(folder, "slurm", slurm_max_num_timeout=MAX_TIMEOUTS)
    except (ImportError, RuntimeError) as error:
        needs = '--executor=slurm needs Slurm and pip install "ebmjax[slurm]"'
        raise ConfigError(f"{needs}: {error}") from error
    limits = {"slurm_time": int(minutes), "slurm_array_parallelism": num_jobs or 256}
    executor.update_parameters(name="ebmjax", slurm_additional_parameters=options, **limits)
    return executor


def run_on(executor: Any, all_cells: Sequence[Cell], tell: Told, _: Told) -> None:
    """Submits all cells, and tells the status of each; Ctrl-C cancels the jobs."""
    from submitit import helpers

    try:
        with executor.batch():
            jobs = {executor.submit(CellJob(cell)): cell for cell in all_cells}
    except Exception as error:  # whatever sbatch says
        raise ConfigError(f"the jobs cannot be submitted: {error}") from error
    try:
        for job in helpers.as_completed([*jobs], poll_frequency=POLL_SECONDS):
            try:
                status = job.result()
            except Exception as error:  # the job failed, was cancelled, or died on its machine
                status = f"failed: {str(error)[-400:]}"
            tell(jobs[job], status)
    except BaseException:
        for job in jobs:
            with contextlib.suppress(Exception):  # it may have ended
                job.cancel(check=False)
        raise
