"""A run that begins with what another one has learnt, ``config.train.start_from``."""

from pathlib import Path

from ebmjax import training
from experiments import workdir
from experiments.build import Experiment
from experiments.config import Config
from experiments.errors import ConfigError, WorkdirError
from experiments.workdir_lock import only_process


def warm_start(config: Config, path: Path, experiment: Experiment) -> training.WarmStart | None:
    """Where the run in ``path`` begins; None without another run, or where it has begun already.

    Raises:
      ConfigError: if ``config.train.start_from`` is not the folder of a run with a checkpoint of
        the same network, or another process is there.
    """
    folder = config.train.get("start_from", "")
    has_begun = any(p.name.isdigit() for p in (path / "checkpoints").glob("*"))
    if not folder or has_begun:
        return None
    other = Path(folder).expanduser()
    if not (other / "config.json").is_file() or other.resolve() == path.resolve():
        raise ConfigError(
            f"config.train.start_from must be the folder of another run, with its config.json and "
            f"checkpoints, got {folder!r}. Set it with --config.train.start_from=FOLDER."
        )
    assert experiment.warm_start is not None  # in every family that has the field
    try:
        with only_process(other):
            return experiment.warm_start(other / "checkpoints")
    except (
        FileNotFoundError,
        WorkdirError,
        training.CheckpointMismatchError,
        training.CheckpointDamagedError,
    ) as error:
        raise ConfigError(f"config.train.start_from={folder!r}: {error}") from error


def record(config: Config, path: Path, start: training.WarmStart) -> None:
    """Says where the run begins, and writes it down: the other folder may change."""
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
