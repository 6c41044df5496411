"""A study whose runs are none: what they would write, without training."""

import subprocess
from pathlib import Path

from ebmjax.recipes.folder.run_folder import as_json, prepare, write_json
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.jobs import run_here

STUDY = Study(
    rows={
        "plain, a": "configs/jem_digits.py",
        "other/b": ["configs/jem_digits.py:mala", "--config.train.num_epochs=3"],
    },
    columns={
        "accuracy | %": ("classification.accuracy", 100.0, 1),
        "seconds": ("run_seconds", 1.0, 0),
        "absent": ("nowhere.to.be.found", 1.0, 2),
    },
    num_seeds=2,
    common=("--config.evals.ood.every=never",),
)


class Finished:
    """A process that has come to its end, having written ``errors`` to its stderr."""

    pid, stdout = 0, ()

    def __init__(self, returncode, errors, stderr):
        self.returncode = returncode
        stderr.write(errors)

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        pass

    def wait(self):
        return self.returncode

    def terminate(self):
        """Does nothing, as for any process that has ended."""


def fake_runs(monkeypatch):
    """Commands of runs that are none: seed 1 of the second row diverges, others write numbers."""
    made = []

    def fake(command, *, stderr, **options):
        made.append(command)
        argument = dict(part.split("=", 1) for part in command if part.startswith("--"))
        folder, seed = Path(argument["--workdir"]), int(argument["--config.seed"])
        folder.mkdir(parents=True)
        if seed == 1 and ":mala" in argument["--config"]:
            return Finished(1, "error: Training diverged: the last 20", stderr)
        # As a run does, whole or not at all: the table may be made while another job writes.
        write_json(folder / "summary.json", {"run_seconds": 10.0 + seed})
        write_json(folder / "evaluation.json", {"classification": {"accuracy": 0.5 + 0.25 * seed}})
        return Finished(0, "", stderr)

    monkeypatch.setattr(subprocess, "Popen", fake)
    return made


def fail_runs(monkeypatch, errors="error: no such data"):
    """Commands of runs that end at once with exit code 2 and these errors."""

    def fail(command, *, stderr, **options):
        return Finished(2, errors, stderr)

    monkeypatch.setattr(subprocess, "Popen", fail)


def run(all_cells):
    """Returns the messages on every cell, one run at a time."""
    told = []
    run_here(1, all_cells, lambda cell, status: told.append((cell, status)), print)
    assert [cell for cell, _ in told] == all_cells
    return [status for _, status in told]


def made_before(study, folder):
    """The first cell of a study, its folder as a finished run leaves it."""
    (cell, *_) = cells(study, folder, 1)
    prepare(cell.folder, cell.config)
    write_json(cell.folder / "evaluation.json", {"evals": as_json(cell.config)["evals"]})
    return cell
