"""Builds the experiment of a run, and explains by its fields what does not fit together."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ebmjax import training
from ebmjax.data import DataUnavailableError
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, WriteError, flatten
from ebmjax.recipes.models import build
from ebmjax.recipes.run import recover

USER_ERRORS = (
    ConfigError,
    WorkdirError,
    WriteError,
    DataUnavailableError,
    FileNotFoundError,
    NotADirectoryError,
    training.CheckpointAccessError,
    training.CheckpointDamagedError,
    training.CheckpointMismatchError,
    training.DivergenceError,
)


def built(config: Config, recoveries: Sequence[recover.Recovery], path: Path) -> build.Experiment:
    """Builds the experiment, with all remedies of ``recoveries``, and traces its training step."""
    now = recover.remedied(config, recoveries)
    return build_or_explain(now, lambda: build_and_trace(now, path))


def build_and_trace(config: Config, path: Path) -> build.Experiment:
    """Builds the experiment and traces its training step, because some mistakes show only then."""
    experiment = families.build(config, path)
    training.check_fits(
        build.train_key(config),
        experiment.state,
        experiment.train_step,
        experiment.data,
        experiment.plan,
    )
    return experiment


def build_or_explain(config: Config, make: Callable[[], build.Experiment]) -> build.Experiment:
    """Returns ``make()``; turns the library's errors into errors of ``config``."""
    try:
        return make()
    except USER_ERRORS:
        raise
    except (ValueError, TypeError) as error:
        fields = ", ".join(fields_behind(str(error), config))
        where = f" Set here: {fields}." if fields else ""
        raise ConfigError(f"the configuration does not fit together: {error}{where}") from error


def fields_behind(message: str, config: Config) -> list[str]:
    """Returns the fields, with values, that a message of the library names by arguments.

    A message has ``padding=2`` or "padding must ..., got 2" for config.data.crop_padding: the field
    ends in the argument's name and has its value.
    """
    given = re.findall(r"\b(\w+)='?([\w.:/+-]*\w)", message)
    given += re.findall(r"^(\w+) must .*?\bgot '?([\w.+-]*\w)", message)
    flat = {name: str(value) for name, value in flatten(config.to_dict()).items()}
    return [
        f"config.{name}={value}"
        for name, value in flat.items()
        if f"config.{name}" not in message
        and any(
            f"_{name}".replace(".", "_").endswith(f"_{argument}") and value == other
            for argument, other in given
        )
    ]
