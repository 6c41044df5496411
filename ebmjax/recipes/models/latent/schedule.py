"""Powers of a latent EBM run: a power law, or placed by a pilot run and kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import latent
from ebmjax._records import list_steps, read_json
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError
from ebmjax.recipes.folder import workdir as folders
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent.pilot import Pilot

FILE = "schedule.json"


class Schedule(NamedTuple):
    """Powers of a run.

    Attributes:
      powers: (num_intervals + 1,), from 0 to 1, for all repeats.
      pilot: time to place them; None for a power law.
    """

    powers: jax.Array
    pilot: common.Seconds | None = None


def schedule(config: Config, workdir: Path, pilot: Callable[[jax.Array], Pilot]) -> Schedule:
    """Returns the schedule of ``config.loss``.

    "adaptive" gives each interval an equal share of the thermodynamic length that a pilot run
    finds. The run's folder keeps the result, which a continued or evaluated run reads.

    Args:
      config: the run's configuration, as it was given; the folder keeps it.
      workdir: the run's folder; made if there is a pilot's result to keep.
      pilot: function from the power law of ``config.loss`` to a pilot's mean log likelihoods.

    Raises:
      ConfigError: if the pilot's mean log likelihoods place no powers.
      WorkdirError: if the folder holds a schedule of another run.
    """
    num_intervals = config.loss.num_intervals
    law = latent.power_schedule(num_intervals, config.loss.exponent)
    if config.loss.get("schedule", "power") == "power":
        return Schedule(law)
    path = workdir / FILE
    if path.exists():
        return _read(path, num_intervals)
    if list_steps(workdir / "checkpoints"):  # whoever reads a run writes nothing in its folder
        raise _no_schedule(path, num_intervals, "it is missing")
    found = pilot(law)
    powers = _place(found, num_intervals)
    if not (workdir / "config.json").exists():
        folders.prepare(workdir, config)
    kept = {
        "powers": powers.tolist(),
        "pilot_powers": found.powers.tolist(),
        "pilot_mean_log_likelihoods": found.mean_log_likelihoods.tolist(),
        "pilot_seconds": found.seconds._asdict(),
    }
    folders.write_json(path, kept)
    return Schedule(powers, found.seconds)


def _place(found: Pilot, num_intervals: int) -> jax.Array:
    try:
        powers = latent.adaptive_schedule(found.powers, found.mean_log_likelihoods, num_intervals)
    except ValueError as error:
        raise ConfigError(
            f"the pilot run of config.loss.schedule='adaptive' places no powers: {error} Change "
            "config.loss.pilot_epochs, or take --config.loss.schedule=power."
        ) from error
    if not _is_ladder(powers, num_intervals):
        raise ConfigError(
            "the pilot run of config.loss.schedule='adaptive' places powers that coincide: "
            f"{powers.tolist()}. Lower config.loss.num_intervals={num_intervals}, or take "
            "--config.loss.schedule=power."
        )
    return powers


def _is_ladder(powers: Any, num_intervals: int) -> bool:
    values = np.asarray(powers, np.float32)
    if values.shape != (num_intervals + 1,):
        return False
    return bool(values[0] == 0 and values[-1] == 1 and np.all(np.diff(values) > 0))


def _read(path: Path, num_intervals: int) -> Schedule:
    try:
        kept = read_json(path)
        powers, seconds = kept["powers"], common.Seconds(**kept["pilot_seconds"])
        is_fitting = _is_ladder(powers, num_intervals)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_schedule(path, num_intervals, f"{type(error).__name__}: {error}") from error
    if not is_fitting:
        raise _no_schedule(path, num_intervals, f"its powers are {powers}")
    return Schedule(jnp.asarray(powers, jnp.float32), seconds)


def _no_schedule(path: Path, num_intervals: int, problem: str) -> WorkdirError:
    return WorkdirError(
        f"{path} must hold the {num_intervals + 1} powers of this run, from 0 to 1, and the "
        f"pilot's seconds, but does not ({problem}). Put it back as it was, or use another "
        "--workdir."
    )
