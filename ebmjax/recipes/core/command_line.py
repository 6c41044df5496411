"""Reads the configuration from a command line."""

from collections.abc import Sequence

from absl import flags
from ml_collections import ConfigDict, config_flags

from ebmjax.recipes.core import declare, families, files, unset
from ebmjax.recipes.core.fields import Config, stop


def read(config: str, arguments: Sequence[str], *, is_checked: bool = True) -> Config:
    """Returns the configuration of ``run.py --config=CONFIG ARGUMENTS``, without global flags.

    Raises:
      SystemExit: as ``parse``.
    """
    argv = ["run.py", f"--config={config}", *arguments]
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, flag_values=values, sys_argv=argv)
    parse(values, argv, is_checked=is_checked)
    return values.config


def without_effect(config: str, arguments: Sequence[str]) -> set[str]:
    """Returns the names of the fields that ``arguments`` set and that then have no effect.

    Raises:
      SystemExit: as ``parse``, but not for fields out of range.
    """
    found = read(config, arguments, is_checked=False)
    fields = families.fields_of(found.family)
    return {name for name in typed(arguments) if declare.no_effect(fields, found, name)}


def parse(values: flags.FlagValues, argv: list[str], *, is_checked: bool = True) -> list[str]:
    """Sets the flags, ``config`` among them, from a command line; returns the rest.

    Without ``is_checked`` fields may be out of range, without effect or exclude each other.

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
        if is_checked:
            families.check(values.config, {*typed(argv), *unset_names})
    except (AttributeError, KeyError) as error:
        stop(f"unknown field in a --config override: {_innermost(error)}")
    except flags.UnrecognizedFlagError as error:
        hint = " Fields of the configuration begin with --config, as in --config.data.path=FILE."
        stop(f"{str(error).strip().splitlines()[0].rstrip('.')}.{hint}")
    except (flags.Error, TypeError, ValueError) as error:
        # An error in a configuration file has a traceback; the reason is the last line.
        stop(str(error).strip().splitlines()[-1])
    return rest


def typed(argv: Sequence[str]) -> list[str]:
    """Returns the names of the fields that arguments set."""
    names = [argument.lstrip("-").partition("=")[0] for argument in argv if argument[:1] == "-"]
    return [name.removeprefix("config.") for name in names if name.startswith("config.")]


def _check_sections(config: Config, argv: Sequence[str]) -> None:
    """Raises ValueError if a section is set as a whole, which would lose fields.

    Raises:
      ValueError: naming the section.
    """
    for name in typed(argv):
        if isinstance(config[name], ConfigDict):
            raise ValueError(
                f"config.{name} is a section and keeps its fields: set them one by one, as in "
                f"--config.{name}.FIELD=VALUE."
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
