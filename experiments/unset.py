"""``--config.FIELD=None`` on the command line, which ml_collections leaves to its users."""

from typing import Any

from ml_collections import ConfigDict, FieldReference

_PREFIX, _SUFFIX = "config.", "=None"


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """The arguments that set something to None, as dotted names, apart from the others."""
    rest, names = [], []
    for argument in argv:
        name = argument.removeprefix("-").removeprefix("-")
        if argument.startswith("-") and name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            names.append(name.removeprefix(_PREFIX).removesuffix(_SUFFIX))
        else:
            rest.append(argument)
    return rest, names


def unset(config: ConfigDict, name: str) -> None:
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
