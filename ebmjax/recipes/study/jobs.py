"""Runs the cells of a study, on a share of the CPUs each."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from ebmjax.recipes.__main__ import STOPS_WITH_STDIN
from ebmjax.recipes.study.cells import DIVERGED, Cell

Told = Callable[[Cell, str], None]


def run_here(num_jobs: int, all_cells: Sequence[Cell], tell: Told, hear: Told) -> None:
    """Runs cells, ``num_jobs`` at the same time, each on its share of the CPUs.

    ``tell`` takes a cell and its status, ``hear`` a cell and a line that its run prints.
    An exception that ends this early, such as Ctrl-C, is raised again after the runs have stopped.
    """
    stdin, held = os.pipe()
    with ThreadPoolExecutor(num_jobs, initializer=share_cpus(num_jobs)) as pool:
        jobs = {pool.submit(run_cell, cell, stdin, partial(hear, cell)): cell for cell in all_cells}
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


def run_cell(cell: Cell, stdin: int, hear: Callable[[str], Any]) -> str:
    """Runs the command of a missing cell; returns its status, or the last lines of an error.

    The run saves and stops when ``stdin`` ends. ``hear`` takes the lines that it prints.
    """
    if cell.status != "missing":  # it has ended meanwhile
        return cell.status
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        pipes: Any = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": file}
        pipes |= {"env": os.environ | {STOPS_WITH_STDIN: "1"}, "errors": "replace"}
        with subprocess.Popen(cell.command, **pipes) as process:
            for line in process.stdout or ():
                hear(line.strip())
        file.seek(0)
        errors = file.read()
    if "Training diverged" in errors:
        (cell.folder / DIVERGED).write_text(errors)
    if cell.status == "missing":
        return f"failed with exit code {process.returncode}: {errors.strip()[-400:]}"
    return cell.status
