"""Searches whose runs are none: they write a number of their fields at once.

As a program it is ``ebmjax search`` with such runs, which kills itself at the moment KILL_AT.
"""

import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import optuna
from study_problem import Finished

from ebmjax.recipes.config import command_line
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.folder.workdir import prepare, write_json
from ebmjax.recipes.study import search, search_results

ARGUMENTS = (
    "--config=jem_digits:smoke",
    "--config.data.holdout=0.2",
    "--minimize=classification.nll",
    "--space=sampler.sgld.step_size=0.01..10",
    "--space=sampler.num_steps=2,4",
)
STEP, DIVERGES = "config.sampler.sgld.step_size", 8.0
LOCK = threading.Lock()  # runs are threads here, and a configuration file is read by one of them
MOMENTS = [
    (optuna.Study, "set_user_attr"),
    (optuna.Study, "add_trial"),
    (optuna.Study, "tell"),
    (subprocess, "Popen"),
    (search_results, "write_json"),
    (search_results, "write_whole"),
]
"""Calls at which a search may be killed: before and after each of these calls."""


def fake(command, **options):
    """A run that diverges beyond ``DIVERGES``; its number is least for a step of 0.5, 4 steps."""
    given = dict(part.lstrip("-").split("=", 1) for part in command if part.startswith("--"))
    step, folder = float(given[STEP]), Path(given["workdir"])
    fields = [part for part in command if part.startswith("--config.")]
    with LOCK:
        config = command_line.read(given["config"], fields)
    prepare(folder, config)
    if step > DIVERGES:
        return Finished(1, "error: Training diverged: the last 20 steps, up to step 812, had no")
    nll = math.log10(step / 0.5) ** 2 + 0.1 * (given["config.sampler.num_steps"] == "2")
    nll += 1e-3 * int(given["config.seed"])
    report = {"classification": {"nll": nll}, "eval": as_json(config)["eval"]}
    write_json(folder / "evaluation.json", report)
    return Finished(0, "")


def interrupt(kill, at, setattr_=setattr):
    """Calls ``kill`` at the ``at``-th moment, counted from 0; returns the list of moments."""
    seen = []

    def pass_moment():
        seen.append(None)
        if len(seen) == at + 1:
            kill()

    def around(call):
        def wrapped(*arguments, **options):
            pass_moment()
            found = call(*arguments, **options)
            pass_moment()
            return found

        return wrapped

    for place, name in MOMENTS:
        setattr_(place, name, around(getattr(place, name)))
    return seen


def run(*arguments):
    """Runs the command; returns its exit code."""
    sys.argv[:] = ["ebmjax search", *ARGUMENTS, *arguments]
    try:
        search.main()
    except SystemExit as error:
        return error.code


def trials_of(folder):
    """The trials in a folder's journal: states, fields, numbers and notes."""
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(folder.absolute() / "journal.log"))
    )
    trials = optuna.load_study(study_name="search", storage=storage).trials
    return [(t.number, t.state.name, t.params, t.value, t.user_attrs) for t in trials]


if __name__ == "__main__":
    subprocess.Popen = fake
    interrupt(lambda: os.kill(os.getpid(), signal.SIGKILL), int(os.environ["KILL_AT"]))
    sys.exit(run(*sys.argv[1:]))
