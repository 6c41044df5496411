"""Starts a run from another run, ``config.train.start_from``."""

from pathlib import Path

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
        differing = [n for n in ("max_train", "holdout") if theirs[n] != config.data[n]]
        is_same = theirs["name"] == config.data.name
        if is_same and differing and (experiment.config or config).data.holdout:
            raise ConfigError(
                f"config.data.holdout holds out images that the run in {other} may have learnt "
                f"from, which has config.data.{differing[0]}={theirs[differing[0]]}: start from a "
                "run that has held out the same, or set --config.data.holdout=0."
            )
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
