"""Reads the configuration from a command line."""

from collections.abc import Sequence

from absl import flags
from ml_collections import ConfigDict, config_flags

from ebmjax.recipes.core import files, unset
from ebmjax.recipes.core.fields import Config, stop


def read(config: str, arguments: Sequence[str]) -> Config:
    """Returns the configuration of ``run.py --config=CONFIG ARGUMENTS``, without global flags.

    Raises:
      SystemExit: as ``parse``.
    """
    argv = ["run.py", f"--config={config}", *arguments]
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, flag_values=values, sys_argv=argv)
    parse(values, argv)
    return values.config


def parse(values: flags.FlagValues, argv: list[str]) -> list[str]:
    """Sets the flags, ``config`` among them, from a command line; returns the rest.

    Raises:
      SystemExit: for a mistake in the command line, in one line.
    """
    argv, unset_names = unset.split(_joined(argv))
    try:
        rest = values([resolve(argument) for argument in argv])
        if values.config is None:
            stop("--config is missing. Try --config=configs/thermo_digits.py or --help.")
        for name in unset_names:
            unset.unset(values.config, name)
        _check_sections(values.config, argv)
    except (AttributeError, KeyError) as error:
        stop(f"unknown field in a --config override: {_innermost(error)}")
    except (flags.Error, TypeError, ValueError) as error:
        # An error in a configuration file has a traceback; the reason is the last line.
        stop(str(error).strip().splitlines()[-1])
    return rest


def _check_sections(config: Config, argv: Sequence[str]) -> None:
    """Raises ValueError if a section is set as a whole, which would lose fields.

    Raises:
      ValueError: naming the section.
    """
    for argument in argv:
        name = argument.lstrip("-").partition("=")[0]
        if not argument.startswith("-") or not name.startswith("config."):
            continue
        section = name.removeprefix("config.")
        value = config
        for part in section.split("."):
            value = value[part]
        if isinstance(value, ConfigDict):
            raise ValueError(
                f"{name} is a section and keeps its fields: set them one by one, as in "
                f"--{name}.FIELD=VALUE."
            )


def resolve(argument: str) -> str:
    """Returns ``--config=PATH[:VARIANT]`` with PATH found from here or from experiments/."""
    prefix, equals, value = argument.partition("=")
    if prefix not in ("--config", "-config") or not equals:
        return argument
    path, colon, variant = value.partition(":")
    found = files.find(path, "configs", "configuration")
    return f"--config={found}{colon}{variant}"


def _joined(argv: list[str]) -> list[str]:
    """Returns ``argv`` with ``--config PATH`` joined to ``--config=PATH``."""
    joined: list[str] = []
    for argument in argv:
        if joined and joined[-1] in ("--config", "-config"):
            argument = f"{joined.pop()}={argument}"
        joined.append(argument)
    return joined


def _innermost(error: BaseException) -> str:
    """Returns the message of the error behind ``error``, on one line."""
    while error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    return "; ".join(str(error.args[0]).splitlines()) if error.args else str(error)
