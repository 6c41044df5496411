"""Reads the configuration from a command line."""

import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict, FieldReference, config_flags

from ebmjax.recipes.config import declare, families, files
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean, stop

SHORT = {"max_steps": "config.train.max_steps"}
"""Short form of an option to its field."""


def read(
    config: str, arguments: Sequence[str], *, is_checked: bool = True, where: str = ""
) -> Config:
    """Returns the configuration of ``run.py --config=CONFIG ARGUMENTS``, without global flags.

    Raises:
      SystemExit: as ``parse``.
    """
    argv = ["run.py", f"--config={config}", *arguments]
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, flag_values=values, sys_argv=argv)
    parse(values, argv, is_checked=is_checked, where=where)
    return values.config


def without_effect(config: str, arguments: Sequence[str], where: str = "") -> set[str]:
    """Returns the names of the fields that ``arguments`` set and that then have no effect.

    Raises:
      SystemExit: as ``parse``, but not for fields out of range.
    """
    found = read(config, arguments, is_checked=False, where=where)
    fields = families.all_fields(found.family)
    return {name for name in read_names(arguments) if declare.no_effect(fields, found, name)}


def parse(
    values: flags.FlagValues, argv: list[str], *, is_checked: bool = True, where: str = ""
) -> list[str]:
    """Sets the flags, ``config`` among them, from a command line; returns the rest.

    Args:
      values: the flags.
      argv: the command line.
      is_checked: False lets fields be out of range, without effect or exclude each other, and
        leaves the sections of parts that the configuration does not name.
      where: beginning of a message, such as the row of a study.

    Raises:
      SystemExit: for a mistake in the command line or the configuration file, in one line.
    """
    argv, unset_names = _split_unset(_join_config(argv))
    if not any(argument.partition("=")[0].lstrip("-") == "config" for argument in argv[1:]):
        stop(
            f"{where}--config is missing. Try --config=configs/thermo_digits.py, or --help; "
            "configs/joint.py is for your own images."
        )
    names = {*read_names(argv), *unset_names}
    sys.modules.pop("config_config", None)  # else a file would see what another one defined
    if "max_steps" not in values:
        flags.DEFINE_integer("max_steps", None, "Steps of the run.", flag_values=values)
    try:
        rest = values([resolve(argument, where) for argument in argv])
        if values.config is None:
            raise ConfigError("get_config() of the file must return a configuration, got None.")
        if values.max_steps is not None:
            values.config.train.max_steps = values.max_steps
        for name in unset_names:
            _unset(values.config, name)
        _check_sections(values.config, argv)
        if is_checked:
            families.reset_siblings(values.config, names)
            families.check(values.config, names)
            families.prune(values.config)
    except flags.UnrecognizedFlagError as error:
        text = str(error).strip().splitlines()[0].rstrip(".").replace(" ?", "?") + "."
        hint = "Fields of the configuration begin with --config, as in --config.data.path=FILE."
        stop(f"{where}{text.replace('?.', '?')} {hint}")
    except (Exception, SystemExit) as error:  # whatever the configuration file does
        if str(error).startswith("error: "):  # of ``stop``, which has printed it
            raise
        given = [one.partition("=")[2] for one in argv if one.lstrip("-").startswith("config=")]
        stop(where + _explain(error, given[-1] if given else "", names))
    return rest


def _explain(error: BaseException, config: str, names: Collection[str]) -> str:
    """Returns what is wrong, on one line: the configuration file, a field's name or its value."""
    found = files.places(config.partition(":")[0], "configs")
    path = found[0] if found else Path(config)
    for one in _chain(error):
        is_ours = isinstance(one, ConfigError | declare.UnknownVariantError)
        if is_ours and "\n" not in str(one):  # else one that wraps another's traceback
            return str(one)
        if mistake := files.mistake_in(path, one):
            return mistake
    if "attribute 'get_config'" in str(error):
        return f"{path} must define get_config(variant), which returns a configuration."
    if names and isinstance(error, AttributeError | KeyError | TypeError):
        now = read(config, [], is_checked=False)
        known, here = declare.names(now), {*families.fields_of(now)}
        for name in sorted({*names} - known):
            whole = name.rpartition(".")[0]
            if whole in known and whole.endswith("options"):
                return f"config.{name} is no field: config.{whole} is one JSON text, set whole."
            hint = did_you_mean(name, here) or did_you_mean(name, known)
            return f"config.{name} is no field.{hint} `ebmjax fields {config}` prints all."
    if isinstance(error, flags.IllegalFlagValueError) and names:  # "flag --config.NAME=VALUE: ..."
        text = str(error).replace("flag --max_steps", f"flag --{SHORT['max_steps']}", 1)
        name, _, rest = text.removeprefix("flag --config.").partition("=")
        one = families.all_fields(read(config, [], is_checked=False).family).get(name)
        if one is not None:
            return declare.refusal_of(one, name, rest.partition(": ")[0])
    return str(error).strip().splitlines()[-1]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Returns an error and those behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def read_names(argv: Sequence[str]) -> list[str]:
    """Returns the names of the fields that arguments set."""
    names = [argument.lstrip("-").partition("=")[0] for argument in argv if argument[:1] == "-"]
    names = [SHORT.get(name, name) for name in names]
    return [name.removeprefix("config.") for name in names if name.startswith("config.")]


def _check_sections(config: Config, argv: Sequence[str]) -> None:
    """Raises ValueError if a section is set as a whole, which would lose fields."""
    for name in read_names(argv):
        if isinstance(config[name], ConfigDict):
            raise ValueError(
                f"config.{name} is a section and keeps its fields: set them one by one, as in "
                f"--config.{name}.FIELD=VALUE."
            )


def resolve(argument: str, where: str = "") -> str:
    """Returns ``--config=PATH[:VARIANT]`` with PATH found as ``files.find`` does."""
    prefix, equals, value = argument.partition("=")
    if prefix not in ("--config", "-config") or not equals:
        return argument
    path, colon, variant = value.partition(":")
    found = files.find(path, "configs", "configuration", where)
    return f"--config={found}{colon}{variant}"


def _join_config(argv: list[str]) -> list[str]:
    """Returns ``argv`` with ``--config PATH`` joined to ``--config=PATH``."""
    joined: list[str] = []
    for argument in argv:
        if joined and joined[-1] in ("--config", "-config"):
            argument = f"{joined.pop()}={argument}"
        joined.append(argument)
    return joined


def _split_unset(argv: list[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments without ``--config.FIELD=None``, and the names of those fields.

    Of several for one field the last counts, as it does among values. ml_collections leaves None
    to its users.
    """
    rest: list[str] = []
    names: set[str] = set()
    for argument in argv:
        here, is_none = read_names([argument]), argument.partition("=")[2] == "None"
        names = names.union(here) if is_none else names.difference(here)
        if not (here and is_none):
            rest.append(argument)
    return rest, sorted(names)


def _unset(config: ConfigDict, name: str) -> None:
    """Sets an optional field to None.

    Raises:
      KeyError: if there is no such field.
      ValueError: if it must have a value.
    """
    *path, last = name.split(".")
    section: Any = config
    for part in path:
        section = section[part]
    # Optional fields are made by ``config_dict.placeholder`` and stay references.
    if not isinstance(dict(section.items(preserve_field_references=True))[last], FieldReference):
        raise ValueError(
            f"config.{name} must have a value, got None: leave it out, and it is {section[last]!r}."
        )
    section[last] = None
