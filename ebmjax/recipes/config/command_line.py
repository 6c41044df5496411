"""Reads the configuration from a command line."""

import runpy
from collections.abc import Sequence
from pathlib import Path

from ml_collections import ConfigDict

from ebmjax._phases import say
from ebmjax._shown import trim
from ebmjax.recipes.config import declare, families, files
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean, stop


def read(
    config: str, arguments: Sequence[str], *, is_checked: bool = True, where: str = ""
) -> Config:
    """Returns the configuration CONFIG[:VARIANT] with the fields that ``arguments`` set.

    Args:
      config: file and variant; the file is looked for as ``files.find`` does.
      arguments: such as "--config.seed=3"; others are left alone.
      is_checked: False lets fields be out of range or exclude each other, and leaves the sections
        of parts that the configuration does not name.
      where: beginning of a message, such as the row of a study.

    Raises:
      SystemExit: for a mistake in the command line or the configuration file, in one line.
    """
    path, colon, variant = config.partition(":")
    found = files.find(path, "configs", "configuration", where)
    try:
        get_config = runpy.run_path(str(found)).get("get_config")
        if not callable(get_config):
            raise ConfigError(f"{found} must define get_config(variant), which makes the fields.")
        made = get_config(*[variant] * bool(colon))
        if not isinstance(made, ConfigDict):
            raise ConfigError(
                "config: get_config() of the file must return a configuration, got "
                f"{trim(repr(made))}."
            )
        given = [one.removeprefix("--config.").partition("=") for one in split(["", *arguments])[1]]
        names = [name for name, _, _ in given]
        fields = families.all_fields(getattr(made, "family", ""), names) if names else {}
        for name, _, text in given:
            if name.endswith(".options") or any(one.startswith(f"{name}.") for one in fields):
                raise ConfigError(
                    f"config.{name} is a section and keeps its fields: set them one by one, as in "
                    f"--config.{name}.FIELD=VALUE."
                )
            if name not in fields:
                near = did_you_mean(name, families.fields_of(made)) or did_you_mean(name, fields)
                raise ConfigError(
                    f"config.{trim(name)} is no field.{near} `ebmjax fields {config}` prints all."
                )
            declare.put(fields[name], made, name, declare.from_text(fields[name], name, text))
        if is_checked:
            line = families.check(made, names)
            families.prune(made)
            if line:
                say(f"chosen: {line}", "stderr")
    except (Exception, SystemExit) as error:  # whatever the configuration file does
        stop(where + _explain(error, found))
    return made


def split(argv: Sequence[str]) -> tuple[str | None, list[str], list[str]]:
    """Returns the value of --config, the arguments that set fields, and the others of ``argv``.

    A value may follow a space. A field without one is True.
    """
    config, fields, rest, waiting = None, [], list(argv[:1]), list(argv[1:])
    while waiting:
        argument = waiting.pop(0)
        name, equals, value = argument.lstrip("-").partition("=")
        name = "config.train.max_steps" if name == "max_steps" else name
        if argument[:1] != "-" or not (name == "config" or name.startswith("config.")):
            rest.append(argument)
            continue
        if not equals:
            has_value = waiting and waiting[0][:1] != "-"
            value = waiting.pop(0) if has_value else "True" if name != "config" else ""
        if name == "config":
            config = value
        else:
            fields.append(f"--{name}={value}")
    return config, fields, rest


def _explain(error: BaseException, path: Path) -> str:
    """Returns what is wrong, on one line: the configuration file, a field's name or its value."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, ConfigError):
            return str(one)
        if mistake := files.mistake_in(path, one):
            return mistake
        one = one.__cause__ or one.__context__
    return str(error).strip().splitlines()[-1]
