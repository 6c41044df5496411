"""Starts a run from another run, ``config.train.start_from``."""

from pathlib import Path
from typing import Any

from ebmjax import training
from ebmjax._records import list_steps
from ebmjax._shown import near_path
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.run_folder import read_config
from ebmjax.recipes.models.build import Experiment


def warm_start(config: Config, path: Path, experiment: Experiment) -> training.WarmStart | None:
    """Returns the start of a run; None without another run, or once it has begun.

    Raises:
      ConfigError: if ``config.train.start_from`` is not the folder of a run with a checkpoint of
        the same network. Also if that run was trained on images that this run holds out, or another
        process uses it.
    """
    folder = config.train.get("start_from", "")
    if not folder or list_steps(path / "checkpoints"):
        return None
    other = Path(folder).expanduser()
    if not (other / "config.json").is_file() or other.resolve() == path.resolve():
        raise ConfigError(
            f"config.train.start_from must be the folder of another run, with its config.json and "
            f"checkpoints, got {folder!r}.{near_path(other)} Set it with "
            "--config.train.start_from=FOLDER."
        )
    assert experiment.warm_start is not None  # in every family that has the field
    try:
        theirs = read_config(other)["data"]
        _check_held_out(config, experiment.config or config, other, theirs)
        with workdir.only_process(other, is_reader=True):
            pass  # it is free
        return experiment.warm_start(other / "checkpoints")
    except (
        FileNotFoundError,
        WorkdirError,
        training.CheckpointMismatchError,
        training.CheckpointDamagedError,
    ) as error:
        raise ConfigError(f"config.train.start_from={folder!r}: {error}") from error


def _check_held_out(config: Config, ours: Config, other: Path, theirs: dict[str, Any]) -> None:
    """Raises ConfigError if the other run may have been trained on images that this one holds out.

    ``ours`` is ``config`` with what its data decide, so its numbers are those of the images.
    ``theirs`` is the section ``data`` of the run in ``other``.
    """
    asked, there, names = config.data, ours.data, ("name", "max_train", "holdout")
    if not there.holdout or theirs["name"] != asked.name:
        return
    if all(theirs[name] == asked[name] for name in names):
        return
    total, their_total = there.max_train, theirs["max_train"]
    if asked.max_train is None or total < asked.max_train:  # all that there are
        their_total = min(their_total or total, total)
    share = theirs["holdout"] or 0
    their_number = min(share * (total if share < 1 else 1), theirs.get("max_holdout") or total)
    if their_total != total or their_number < there.holdout:
        raise ConfigError(
            f"config.data.holdout={there.holdout:g} of max_train={total} holds out images "
            f"that the run in {other} may have learnt from, which has holdout={theirs['holdout']} "
            f"of {theirs['max_train']}. Start from a run that has held out the same, or set "
            "--config.data.holdout=0."
        )


def record(config: Config, path: Path, start: training.WarmStart) -> None:
    """Prints where a run begins and records it, because the other folder may change."""
    folder = config.train.start_from
    anew = ("optimizer", *start.anew)
    report = {
        "workdir": folder,
        "step": start.step,
        "params_sha256": training.tree_digest(start.state.params),
        "taken": ["params", *start.taken],
        "anew": list(anew),
    }
    workdir.write_json(path / "started_from.json", report)
    print(
        f"Starts from step {start.step} of {folder}: "
        f"{', '.join(report['taken'])}; anew: {', '.join(anew)}"
    )
