"""Runs the cells of a study: on a share of the CPUs each, or as jobs of Slurm by submitit."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ebmjax.recipes.__main__ import STOPS_WITH_STDIN
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.cells import Cell

DIVERGED = "Training diverged"
# Exit statuses of a run killed by the signal, and of a run that stopped after it.
INTERRUPTED = {code for s in (signal.SIGINT, signal.SIGTERM) for code in (-s, 128 + s)}
SLURM = "--slurm."  # beginning of arguments that are options of sbatch
MAX_TIMEOUTS = 100  # sittings of a run that reach the time limit before its job is given up
POLL_SECONDS = 10.0

Told = Callable[[Cell, str], None]
"""Takes a cell and a line about it."""


class Running:
    """Processes of running runs, which may be asked to stop at any time."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._is_stopping = False

    def stop(self, wait: bool = False) -> None:
        """Stops all processes that have not ended, and those that are added later."""
        self._is_stopping = True
        for process in [*self._processes]:
            process.terminate()
            if wait:
                process.wait()

    def add(self, process: subprocess.Popen[str]) -> None:
        """Adds a process that has just begun."""
        self._processes.append(process)
        if self._is_stopping:  # it began while the others were stopped
            process.terminate()


def run_each(
    all_cells: Iterable[Cell], num_jobs: int, tell: Told, hear: Told = lambda cell, line: None
) -> None:
    """Runs missing cells, and tells the status of every cell.

    An exception that ends this early, such as Ctrl-C, is raised again after the running runs have
    stopped. They get a SIGTERM, on which they save.

    Args:
      all_cells: the cells.
      num_jobs: runs at the same time, each on its share of the CPUs.
      tell: takes a cell and its status.
      hear: takes a cell and a line that its run prints.
    """
    running, own, free = Running(), threading.local(), shares(num_jobs)

    def run_one(cell: Cell) -> str:
        return run(cell, own.cpus, running, hear)

    def begin() -> None:
        own.cpus = free.pop()

    with ThreadPoolExecutor(num_jobs, initializer=begin) as pool:
        jobs = {pool.submit(run_one, cell): cell for cell in all_cells}
        try:
            for job in as_completed(jobs):
                tell(jobs[job], job.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            running.stop()
            raise


def shares(num_jobs: int) -> list[list[int]]:
    """Deals this process's CPUs out to ``num_jobs`` jobs; none if they cannot be bound.

    Runs on separate CPUs finish sooner than runs that share them all.
    """
    if num_jobs == 1 or not hasattr(os, "sched_setaffinity"):
        return [[] for _ in range(num_jobs)]
    cpus = sorted(os.sched_getaffinity(0))
    return [cpus[job % len(cpus) :: num_jobs] for job in range(num_jobs)]


def run(
    cell: Cell, cpus: Collection[int], running: Running, hear: Told = lambda cell, line: None
) -> str:
    """Runs a missing cell, only on ``cpus`` if given; returns its status, or an error's last lines.

    It is in ``running`` while it runs. It stops by itself, as at a SIGTERM, if this process ends.
    """
    if cell.status != "missing":
        return cell.status
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        with subprocess.Popen(
            cell.command,
            stdin=subprocess.PIPE,  # which closes with this process, however that ends
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            errors="replace",
            env=os.environ | {STOPS_WITH_STDIN: "1"},
        ) as process:
            running.add(process)
            if cpus:
                os.sched_setaffinity(process.pid, cpus)
            for line in process.stdout or ():
                hear(cell, line.strip())
            process.wait()
        file.seek(0)
        errors = file.read()
    if DIVERGED in errors:
        (cell.folder / reader.DIVERGED).write_text(errors)
    if cell.status == "missing" and process.returncode in INTERRUPTED:
        return "interrupted"
    if cell.status == "missing":
        return f"failed with exit code {process.returncode}: {errors.strip()[-400:]}"
    return cell.status


class CellJob:
    """A cell as a job: called on the cluster's machine, it runs the cell's command there."""

    def __init__(self, cell: Cell):
        self.cell = cell
        self._running = Running()

    def __call__(self) -> str:
        """Returns the status, as ``run``; raises ConfigError for a job of several tasks."""
        if int(os.environ.get("SLURM_NTASKS", 1)) > 1:
            raise ConfigError("a run of a study is one task: leave --slurm.ntasks out.")
        return run(self.cell, (), self._running)

    def checkpoint(self) -> Any:
        """Stops the run, which saves, at a preemption; returns the job that continues it."""
        from submitit.helpers import DelayedSubmission

        self._running.stop(wait=True)
        return DelayedSubmission(CellJob(self.cell))


def executor_of(name: str, folder: Path, num_jobs: int | None, arguments: Sequence[str]) -> Any:
    """Returns submitit's executor for "slurm", with logs in ``folder``; None for "local"."""
    ours = [one.removeprefix(SLURM) for one in arguments if one.startswith(SLURM)]
    if name != "slurm":
        if ours:
            raise ConfigError(f"{SLURM}{ours[0]} has no effect without --executor=slurm.")
        return None
    options = {name: value for name, _, value in (one.partition("=") for one in ours)}
    if not options.get("time", "").isdecimal():
        raise ConfigError("--executor=slurm needs --slurm.time=MINUTES, the limit of a sitting.")
    try:
        import submitit

        executor = submitit.AutoExecutor(folder, "slurm", slurm_max_num_timeout=MAX_TIMEOUTS)
    except (ImportError, RuntimeError) as error:
        needs = '--executor=slurm needs Slurm and pip install "ebmjax[slurm]"'
        raise ConfigError(f"{needs}: {error}") from error
    limit = {} if num_jobs is None else {"slurm_array_parallelism": num_jobs}
    minutes = {"slurm_time": int(options.pop("time"))}
    executor.update_parameters(
        name="ebmjax", slurm_additional_parameters=options, **limit, **minutes
    )
    return executor


def run_on(executor: Any, all_cells: Sequence[Cell], tell: Told) -> None:
    """Submits missing cells, and tells the status of every cell; Ctrl-C cancels the jobs."""
    from submitit import helpers

    missing = [cell for cell in all_cells if cell.status == "missing"]
    for cell in all_cells:
        if cell not in missing:
            tell(cell, cell.status)
    try:
        with executor.batch() if missing else contextlib.nullcontext():
            jobs = {executor.submit(CellJob(cell)): cell for cell in missing}
    except Exception as error:  # whatever sbatch says
        raise ConfigError(f"the jobs cannot be submitted: {error}") from error
    try:
        for job in helpers.as_completed([*jobs], poll_frequency=POLL_SECONDS):
            try:
                status = job.result()
            except Exception as error:  # the job failed, was cancelled, or died on its machine
                status = jobs[job].status
                status = f"failed: {str(error)[-400:]}" if status == "missing" else status
            tell(jobs[job], status)
    except BaseException:
        for job in jobs:
            with contextlib.suppress(Exception):  # it may have ended
                job.cancel(check=False)
        raise
