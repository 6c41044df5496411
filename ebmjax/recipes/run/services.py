"""Sends a run to wandb or trackio, which share an interface: ``--track``."""

import importlib
import inspect
import os
import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.run_folder import read_json
from ebmjax.recipes.run.tracking import finite_numbers, pictures_of

SERVICES = ("wandb", "trackio")
FILE = "tracking.json"
"""File with the names of the tracked runs: ``{"wandb": "mine-1a2b3c4d", "wandb 1": ...}``, the
second of the first recovery."""


def load_service(name: str) -> Any:
    """Returns the module of one of ``SERVICES``, or raises ConfigError."""
    if name not in SERVICES:
        raise ConfigError(f"track must be one of {', '.join(SERVICES)}, got {name!r}.")
    try:
        module = importlib.import_module(name)
        if not hasattr(module, "init"):  # a folder of that name beside the command
            raise ImportError(f"{name} has no function init")
        return module
    except ImportError as error:
        raise ConfigError(
            f"--track={name} needs the package {name}, which cannot be imported ({error}). Install "
            f"it (pip install {name}), or leave --track out."
        ) from error


class ServiceWriter:
    """Sends rows, the pictures of their steps, and the configuration.

    A run that continues goes on in the same tracked run, and sends no row twice. A recovery begins
    another one. Each new one gets all rows that the folder keeps.

    Args:
      name: one of ``SERVICES``.
      folder: the run's.
      hyperparameters: the configuration by dotted names, as JSON holds it.
      number: of recoveries so far.
    """

    def __init__(self, name: str, folder: Path, hyperparameters: Mapping[str, Any], number: int):
        self._name, self._folder, self._number = name, folder, number
        self._hyperparameters = dict(hyperparameters)
        self._run: Any = None
        self._sent = max((row["step"] for row in workdir.read_rows(folder)), default=-1)

    def start(self, first_step: int) -> None:
        """Begins or continues the tracked run early; raises ConfigError if the service refuses."""
        path = self._folder / FILE
        known = read_json(path) if path.exists() else {}
        place = f"{self._name} {self._number}" if self._number else self._name
        name = known.get(place) or f"{self._folder.absolute().name}-{uuid.uuid4().hex[:8]}"
        module = load_service(self._name)
        options = {
            "project": os.environ.get(f"{self._name.upper()}_PROJECT", "ebmjax"),
            "name": name,
            "config": self._hyperparameters,
            "resume": "allow",
        }
        if "id" in inspect.signature(module.init).parameters:
            options["id"] = name
        try:
            self._run = module.init(**options)
        except Exception as error:
            raise ConfigError(
                f"--track={self._name} could not begin: {str(error).rstrip('.')}. The same command "
                "without --track trains all the same."
            ) from error
        if place not in known:
            self._sent = -1
            workdir.write_json(path, known | {place: name})
            for row in workdir.read_rows(self._folder):
                self.write(row["step"], {k: value for k, value in row.items() if k != "step"})

    def write(self, step: int, row: dict[str, Any]) -> None:
        """Sends a row; the training goes on without the service if that fails."""
        if self._run is None or step <= self._sent:
            return
        try:
            image = load_service(self._name).Image
            pictures = pictures_of(self._folder, step)
            seen = {name: image(str(path)) for name, path in pictures.items()}
            if found := finite_numbers(row) | seen:
                self._run.log(found, step=step)
                self._sent = step
        except Exception as error:
            self._run = None
            warnings.warn(f"--track={self._name} ended at step {step}: {error}", stacklevel=2)

    def close(self) -> None:
        """Ends this sitting of the tracked run."""
        if self._run is not None:
            self._run.finish()
