"""The runs of a study: so many at a time, each on its own share of the CPUs, stopped together."""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from ebmjax.recipes.core import workdir
from ebmjax.recipes.study import reader
from ebmjax.recipes.study.cells import Cell

DIVERGED = "Training diverged"
# By the signal itself, and as a run ends that has heeded it.
INTERRUPTED = {code for s in (signal.SIGINT, signal.SIGTERM) for code in (-s, 128 + s)}


def run_each(all_cells: Iterable[Cell], num_jobs: int, tell: Callable[[Cell, str], None]) -> None:
    """Runs what is missing and tells the status of every cell, of one at a time.

    What ends this early, as Ctrl-C, passes on once the runs under way have stopped: they get a
    SIGTERM, which is a request to save what they have.
    """
    lock, free = threading.Lock(), queue.SimpleQueue[list[int]]()
    running = Running()
    for share in shares(num_jobs):
        free.put(share)

    def run_one(cell: Cell) -> None:
        share = free.get()
        try:
            status = run(cell, share, running)
        finally:
            free.put(share)  # or the cells that wait for it would wait for ever
        with lock:
            tell(cell, status)

    with ThreadPoolExecutor(num_jobs) as pool:
        try:
            list(pool.map(run_one, all_cells))
        except BaseException:
            running.stop()
            raise


class Running:
    """The processes of runs under way, which may be asked to stop at any moment."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[str]] = set()
        self._is_stopping = False

    def stop(self) -> None:
        """Asks all of them, and those that are added from now on."""
        self._is_stopping = True
        for process in list(self._processes):
            process.terminate()

    def add(self, process: subprocess.Popen[str]) -> None:
        """One that has just begun."""
        self._processes.add(process)
        if self._is_stopping:  # it began while the others were asked
            process.terminate()

    def discard(self, process: subprocess.Popen[str]) -> None:
        """One that has ended."""
        self._processes.discard(process)


def run(cell: Cell, cpus: Collection[int], running: Running) -> str:
    """Runs a cell that is missing, on ``cpus`` alone if any are named.

    It is among ``running`` as long as it runs.

    Returns:
      its status, or the last words of what failed.
    """
    if cell.status != "missing":
        return cell.status
    with subprocess.Popen(
        cell.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        running.add(process)
        if cpus:
            os.sched_setaffinity(process.pid, cpus)
        _, errors = process.communicate()
        running.discard(process)
    if DIVERGED in errors:
        workdir.prepare(cell.folder, cell.config)  # a pilot diverges before there is a folder
        (cell.folder / reader.DIVERGED).write_text(errors)
    if cell.status == "missing" and process.returncode in INTERRUPTED:
        return "interrupted"
    if cell.status == "missing":
        return f"failed with exit code {process.returncode}: {errors.strip()[-400:]}"
    return cell.status


def shares(num_jobs: int) -> list[list[int]]:
    """The CPUs of this process dealt out to ``num_jobs`` jobs; none where they cannot be bound.

    Runs that keep to CPUs of their own finish sooner than runs that share them all.
    """
    if num_jobs == 1 or not hasattr(os, "sched_setaffinity"):
        return [[] for _ in range(num_jobs)]
    cpus = sorted(os.sched_getaffinity(0))
    return [cpus[job % len(cpus) :: num_jobs] for job in range(num_jobs)]
