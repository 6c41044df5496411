"""Starts a run from another run, ``config.train.start_from``."""

from pathlib import Path
from typing import Any

import jax

from ebmjax import training
from ebmjax._records import saved_steps
from ebmjax.recipes.core import workdir
from ebmjax.recipes.core.build import Experiment
from ebmjax.recipes.core.fields import Config, ConfigError, WorkdirError
from ebmjax.recipes.core.run_folder import read_config
from ebmjax.recipes.core.workdir_lock import check_free


def warm_start(config: Config, path: Path, experiment: Experiment) -> training.WarmStart | None:
    """Returns the start of the run in ``path``; None without another run, or once it has begun.

    Raises:
      ConfigError: if ``config.train.start_from`` is not the folder of a run with a checkpoint of
        the same network. Also if that run was trained on images that this run holds out, or another
        process uses it.
    """
    folder = config.train.get("start_from", "")
    if not folder or saved_steps(path / "checkpoints"):
        return None
    other = Path(folder).expanduser()
    if not (other / "config.json").is_file() or other.resolve() == path.resolve():
        raise ConfigError(
            f"config.train.start_from must be the folder of another run, with its config.json and "
            f"checkpoints, got {folder!r}. Set it with --config.train.start_from=FOLDER."
        )
    assert experiment.warm_start is not None  # in every family that has the field
    try:
        theirs = read_config(other)["data"]
        _check_held_out(config, len(jax.tree.leaves(experiment.data)[0]), other, theirs)
        check_free(other)
        return experiment.warm_start(other / "checkpoints")
    except (
        FileNotFoundError,
        WorkdirError,
        training.CheckpointMismatchError,
        training.CheckpointDamagedError,
    ) as error:
        raise ConfigError(f"config.train.start_from={folder!r}: {error}") from error


def _check_held_out(config: Config, num_kept: int, other: Path, theirs: dict[str, Any]) -> None:
    """Raises ConfigError if the other run was trained on images after the first ``num_kept``."""
    ours = config.data
    if "max_train" not in theirs:  # points of the plane
        return
    total = num_kept + ours.num_validation
    their_total = total if theirs["max_train"] is None else theirs["max_train"]
    if ours.max_train is None or total < ours.max_train:  # all that there are
        their_total = min(their_total, total)
    their_kept = their_total - theirs["num_validation"]
    if ours.num_validation and theirs["name"] == ours.name and their_kept > num_kept:
        raise ConfigError(
            f"config.data.num_validation={ours.num_validation} of max_train={ours.max_train} holds "
            f"out images that the run in {other} was trained on, which has num_validation="
            f"{theirs['num_validation']} of {theirs['max_train']}. Start from a run that has held "
            "out the same, or set --config.data.num_validation=0."
        )


def record(config: Config, path: Path, start: training.WarmStart) -> None:
    """Prints where the run begins and records it, because the other folder may change."""
    anew = ("optimizer", *start.anew)
    report = {
        "workdir": config.train.start_from,
        "step": start.step,
        "params_sha256": training.tree_digest(start.state.params),
        "taken": ["params", *start.taken],
        "anew": list(anew),
    }
    workdir.write_json(path / "started_from.json", report)
    print(
        f"Starts from step {start.step} of {config.train.start_from}: "
        f"{', '.join(report['taken'])}; anew: {', '.join(anew)}"
    )
