"""Runs the cells of a study, several at a time, each on a share of the CPUs."""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ebmjax.recipes.__main__ import STOPS_WITH_STDIN
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.cells import Cell

DIVERGED = "Training diverged"
# Exit statuses of a run killed by the signal, and of a run that stopped after it.
INTERRUPTED = {code for s in (signal.SIGINT, signal.SIGTERM) for code in (-s, 128 + s)}


Told = Callable[[Cell, str], None]
"""Takes a cell and a line about it."""


def run_each(
    all_cells: Iterable[Cell], num_jobs: int, tell: Told, hear: Told = lambda cell, line: None
) -> None:
    """Runs missing cells.

    An exception that ends this early, such as Ctrl-C, is raised again after the running runs have
    stopped. They get a SIGTERM, on which they save.

    Args:
      all_cells: the cells.
      num_jobs: runs at the same time.
      tell: takes a cell and its status, one cell at a time.
      hear: takes a cell and a line that its run prints; "" when it has ended.
    """
    lock, free = threading.Lock(), queue.SimpleQueue[list[int]]()
    running = Running()
    for share in shares(num_jobs):
        free.put(share)

    def run_one(cell: Cell) -> None:
        share = free.get()
        try:
            status = run(cell, share, running, hear)
        finally:
            free.put(share)  # otherwise waiting cells would wait for ever
        with lock:
            tell(cell, status)

    with ThreadPoolExecutor(num_jobs) as pool:
        try:
            list(pool.map(run_one, all_cells))
        except BaseException:
            running.stop()
            raise


class Running:
    """Processes of running runs, which may be asked to stop at any time."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_stopping = False

    def stop(self, wait: bool = False) -> None:
        """Stops all processes that have not ended, and those that are added later."""
        self._is_stopping = True
        for process in list(self._processes):
            process.terminate()
            if wait:
                process.wait()

    def add(self, process: subprocess.Popen[str]) -> None:
        """Adds a process that has just begun."""
        self._processes.add(process)
        if self._is_stopping:  # it began while the others were stopped
            process.terminate()


def run(
    cell: Cell, cpus: Collection[int], running: Running, hear: Told = lambda cell, line: None
) -> str:
    """Runs a missing cell, only on ``cpus`` if given; returns its status, or an error's last lines.

    It is in ``running`` while it runs. It stops by itself, as at a SIGTERM, if this process ends.
    """
    if cell.status != "missing":
        return cell.status
    with subprocess.Popen(
        cell.command,
        stdin=subprocess.PIPE,  # which closes with this process, however that ends
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=os.environ | {STOPS_WITH_STDIN: "1"},
    ) as process:
        running.add(process)
        if cpus:
            os.sched_setaffinity(process.pid, cpus)
        hear(cell, "starting")
        assert process.stdout is not None  # both are pipes
        assert process.stderr is not None
        lines = threading.Thread(target=_pass_on, args=(process.stdout, partial(hear, cell)))
        lines.start()
        errors = process.stderr.read()
        process.wait()
        lines.join()
        hear(cell, "")
    if DIVERGED in errors:
        workdir.prepare(cell.folder, cell.config)  # a pilot diverges before there is a folder
        (cell.folder / reader.DIVERGED).write_text(errors)
    if cell.status == "missing" and process.returncode in INTERRUPTED:
        return "interrupted"
    if cell.status == "missing":
        return f"failed with exit code {process.returncode}: {errors.strip()[-400:]}"
    return cell.status


def _pass_on(lines: Iterable[str], hear: Callable[[str], None]) -> None:
    """Calls ``hear`` with every line that is not empty."""
    for line in filter(None, map(str.strip, lines)):
        hear(line)


def shares(num_jobs: int) -> list[list[int]]:
    """Deals this process's CPUs out to ``num_jobs`` jobs; none if they cannot be bound.

    Runs on separate CPUs finish sooner than runs that share them all.
    """
    if num_jobs == 1 or not hasattr(os, "sched_setaffinity"):
        return [[] for _ in range(num_jobs)]
    cpus = sorted(os.sched_getaffinity(0))
    return [cpus[job % len(cpus) :: num_jobs] for job in range(num_jobs)]
