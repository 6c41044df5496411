"""Runs the cells of a study as jobs of a cluster, one cell a job, by submitit."""

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.jobs import Running, run

SLURM = "--slurm."
"""Beginning of arguments that are options of sbatch."""
MAX_TIMEOUTS = 100
"""Sittings of a run that reach the time limit before its job is given up."""
POLL_SECONDS = 10.0
SEVERAL = re.compile(r"N|n|nodes?|(?:n?tasks?|array)(?:-.*)?")
"""Options of sbatch by which a job has several tasks or nodes, or is several jobs."""


ONE_TASK = (
    "A run of a study is one process of one machine, with all the GPUs that --slurm.gres=gpu:N "
    "gives it. Runs over several machines: --launcher='srun --nodes=2' in place of --executor."
)


class CellJob:
    """A cell as a job: called on the cluster's machine, it runs the cell's command there.

    Before a preemption and before the time limit, submitit calls ``checkpoint``. The run saves, and
    the job is queued again; the same command then continues the run.
    """

    def __init__(self, cell: Cell):
        self.cell = cell
        self._running = Running()
        self._outcome: Future[str] | None = None

    def __call__(self) -> str:
        """Returns the status, as ``jobs.run``; raises ConfigError for a job of several tasks."""
        if int(os.environ.get("SLURM_NTASKS", 1)) > 1:
            raise ConfigError(f"the job has {os.environ['SLURM_NTASKS']} tasks. {ONE_TASK}")
        # In a thread, so that the signal's handler can wait for the run to end.
        with ThreadPoolExecutor(1) as pool:
            self._outcome = pool.submit(run, self.cell, (), self._running)
            try:
                return self._outcome.result()
            except BaseException:
                self._running.stop()
                raise

    def checkpoint(self) -> Any:
        """Stops the run, which saves; returns the job that continues it."""
        from submitit.helpers import DelayedSubmission

        self._running.stop()
        if self._outcome is not None:
            wait([self._outcome])
        return DelayedSubmission(CellJob(self.cell))


def executor_of(name: str, folder: Path, num_jobs: int | None, arguments: Sequence[str]) -> Any:
    """Returns submitit's executor for "slurm"; None for "local".

    Args:
      name: "local" or "slurm".
      folder: where submitit keeps the jobs' scripts and logs; all machines must see it.
      num_jobs: jobs at the same time; None: as many as Slurm allows.
      arguments: of the command line; those that begin with "--slurm." are options of sbatch.

    Raises:
      ConfigError: if submitit or Slurm is missing, "time" is not a number of minutes, an option
        gives a job several tasks, or an argument has no value or no effect.
    """
    ours = [argument for argument in arguments if argument.startswith(SLURM)]
    if name == "slurm":
        return _slurm_executor(folder, num_jobs, dict(map(_option, ours)))
    if ours:
        raise ConfigError(f"{ours[0]} has no effect without --executor=slurm.")
    return None


def _option(argument: str) -> tuple[str, str]:
    """Returns name and value of ``--slurm.NAME=VALUE``."""
    name, equals, value = argument.removeprefix(SLURM).partition("=")
    if not (name and equals):
        raise ConfigError(
            f"unexpected argument {argument!r}; --slurm.NAME=VALUE is an option of sbatch."
        )
    return name, value


def _slurm_executor(folder: Path, num_jobs: int | None, options: Mapping[str, str]) -> Any:
    if not options.get("time", "").isdecimal():
        raise ConfigError(
            "--executor=slurm needs --slurm.time=MINUTES, the time limit of a job, a whole number; "
            f"got {options.get('time', 'none')}. A run that needs longer is queued again and "
            "continues."
        )
    others = {name: value for name, value in options.items() if name != "time"}
    for name, value in others.items():
        if SEVERAL.fullmatch(name.replace("_", "-")) and value != "1":
            raise ConfigError(
                f"--slurm.{name}={value} would start a run several times in one folder. {ONE_TASK}"
            )
    try:
        import submitit
    except ImportError as error:
        raise ConfigError(
            f"--executor=slurm needs submitit, which cannot be imported ({error}): "
            'pip install "ebmjax[slurm]"'
        ) from error
    try:
        executor = submitit.AutoExecutor(folder, "slurm", slurm_max_num_timeout=MAX_TIMEOUTS)
    except RuntimeError as error:
        raise ConfigError(
            f"--executor=slurm finds no Slurm here: {error} Start the study where you submit jobs."
        ) from error
    executor.update_parameters(
        name="ebmjax",
        slurm_time=int(options["time"]),
        slurm_additional_parameters=others,
        **({} if num_jobs is None else {"slurm_array_parallelism": num_jobs}),
    )
    return executor


def run_on(
    executor: Any,
    all_cells: Sequence[Cell],
    tell: Callable[[Cell, str], None],
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Submits missing cells, and tells the status of every cell once it is known.

    Refused jobs raise ConfigError. An exception that ends this early, such as Ctrl-C, cancels the
    jobs and is raised again.

    Args:
      executor: submitit's.
      all_cells, tell: as of ``jobs.run_each``; only missing cells are submitted.
      poll_seconds: seconds between two looks at the jobs.
    """
    from submitit.helpers import as_completed

    missing = [cell for cell in all_cells if cell.status == "missing"]
    for cell in all_cells:
        if cell.status != "missing":
            tell(cell, cell.status)
    if not missing:
        return
    try:
        with executor.batch():
            jobs = [executor.submit(CellJob(cell)) for cell in missing]
    except Exception as error:  # whatever sbatch says
        raise ConfigError(f"the jobs cannot be submitted: {error}") from error
    cells = {id(job): cell for job, cell in zip(jobs, missing, strict=True)}
    try:
        for job in as_completed(jobs, poll_frequency=poll_seconds):
            cell = cells[id(job)]
            tell(cell, _outcome(job, cell))
    except BaseException:
        for job in jobs:
            with contextlib.suppress(Exception):  # it may have ended
                job.cancel(check=False)
        raise


def _outcome(job: Any, cell: Cell) -> str:
    """Returns the status of an ended job, or the last words of its error."""
    try:
        return job.result()
    except Exception as error:  # the job failed, was cancelled, or died on its machine
        return cell.status if cell.status != "missing" else f"failed: {str(error).strip()[-400:]}"
