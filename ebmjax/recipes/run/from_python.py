"""Trains a configuration from Python: ``recipes.train``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.folder.workdir import check_writable
from ebmjax.recipes.run.launch import launch
from ebmjax.recipes.run.outputs import write
from ebmjax.recipes.run.trained import TrainedRun, load


def train(
    config: str,
    images: Any = None,
    labels: Any = None,
    *,
    folder: str | Path,
    test_images: Any = None,
    test_labels: Any = None,
    fields: Mapping[str, Any] | None = None,
    mode: Literal["train", "all"] = "train",
    track: Literal["wandb", "trackio"] | None = None,
) -> TrainedRun:
    """Trains as ``ebmjax run`` does, in the same folder, and returns the model.

    The same call goes on with a run that was interrupted, and returns a finished one at once.
    Images of yours are kept beside the folder, in FOLDER.npz, where the run reads them.

    Args:
      config: configuration file with :VARIANT, yours or the project's: "configs/joint.py".
      images: (N, H, W) or (N, H, W, channels), bytes or floating point; None for the
        configuration's own data.
      labels: (N,) classes from 0 on, for models that have classes.
      folder: the run's folder.
      test_images: images held out. Without them some of ``images`` are.
      test_labels: classes of ``test_images``.
      fields: dotted names of configuration fields to their values, ``{"train.num_epochs": 10}``.
      mode: "all" evaluates the model after training, too.
      track: service that gets the numbers and pictures, too; None for none.

    Raises:
      ConfigError: if a field is wrong, or if FOLDER.npz holds other images.
      WorkdirError: if the folder cannot be written.
      KeyboardInterrupt: if a signal ended it early; what was trained is saved.

    Example:
      ``run = train("configs/joint.py", images, labels, folder="runs/mine")``
    """
    place, given = Path(folder).expanduser(), dict(fields or {})
    check_writable(place, "folder")
    if images is not None:
        named = {"images": images, "labels": labels}
        named |= {"test_images": test_images, "test_labels": test_labels}
        path = place.with_name(f"{place.name}.npz")
        _keep(path, {name: np.asarray(one) for name, one in named.items() if one is not None})
        given |= {"data.name": "npz", "data.path": path}
    try:
        read = command_line.read(config, [f"--config.{k}={v}" for k, v in given.items()])
    except SystemExit as error:
        raise ConfigError(str(error).removeprefix("error: ")) from error
    if launch(read, config, str(place), mode, track=track):
        raise KeyboardInterrupt(f"Interrupted and saved: the same call goes on with {place}.")
    return load(place)


def _keep(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a run's images, or checks that the file holds them already."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, arrays)
        return
    with np.load(path, allow_pickle=False) as there:
        same = set(there.files) == set(arrays) and all(
            np.array_equal(there[name], array) for name, array in arrays.items()
        )
    if not same:
        raise ConfigError(f"{path} holds other images: name another folder, or move that file.")
