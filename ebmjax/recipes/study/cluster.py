"""Runs the cells of a study as jobs of Slurm, one cell a job, by submitit."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.jobs import Running, run

SLURM = "--slurm."  # beginning of arguments that are options of sbatch
MAX_TIMEOUTS = 100  # sittings of a run that reach the time limit before its job is given up
POLL_SECONDS = 10.0


class CellJob:
    """A cell as a job: called on the cluster's machine, it runs the cell's command there."""

    def __init__(self, cell: Cell):
        self.cell = cell
        self._running = Running()

    def __call__(self) -> str:
        """Returns the status, as ``jobs.run``; raises ConfigError for a job of several tasks."""
        if int(os.environ.get("SLURM_NTASKS", 1)) > 1:
            raise ConfigError("a run is one task: use --launcher='srun --nodes=2' for several.")
        return run(self.cell, (), self._running)

    def checkpoint(self) -> Any:
        """Stops the run, which saves, at a preemption; returns the job that continues it."""
        from submitit.helpers import DelayedSubmission

        self._running.stop(wait=True)
        return DelayedSubmission(CellJob(self.cell))


def executor_of(name: str, folder: Path, num_jobs: int | None, arguments: Sequence[str]) -> Any:
    """Returns submitit's executor for "slurm", with logs in ``folder``; None for "local"."""
    ours = [one.removeprefix(SLURM) for one in arguments if one.startswith(SLURM)]
    if name != "slurm" and ours:
        raise ConfigError(f"{SLURM}{ours[0]} has no effect without --executor=slurm.")
    if name != "slurm":
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


def run_on(executor: Any, all_cells: Sequence[Cell], tell: Callable[[Cell, str], None]) -> None:
    """Submits missing cells, and tells the status of every cell; Ctrl-C cancels the jobs."""
    from submitit.helpers import as_completed

    for cell in (one for one in all_cells if one.status != "missing"):
        tell(cell, cell.status)
    missing = [cell for cell in all_cells if cell.status == "missing"]
    try:
        with executor.batch() if missing else contextlib.nullcontext():
            jobs = {executor.submit(CellJob(cell)): cell for cell in missing}
    except Exception as error:  # whatever sbatch says
        raise ConfigError(f"the jobs cannot be submitted: {error}") from error
    try:
        for job in as_completed([*jobs], poll_frequency=POLL_SECONDS):
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
