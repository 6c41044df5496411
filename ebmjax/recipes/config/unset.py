"""``--config.FIELD=None`` on the command line, which ml_collections leaves to its users."""

from typing import Any

from ml_collections import ConfigDict, FieldReference

_PREFIX = "config."


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """The arguments that set something to None, as dotted names, apart from the others.

    Of several for one field the last counts, as it does among values.
    """
    rest: list[str] = []
    names: set[str] = set()
    for argument in argv:
        name, _, value = argument.removeprefix("-").removeprefix("-").partition("=")
        is_field = argument.startswith("-") and name.startswith(_PREFIX)
        field = name.removeprefix(_PREFIX)
        if is_field and value == "None":
            names.add(field)
            continue
        if is_field:
            names.discard(field)
        rest.append(argument)
    return rest, sorted(names)


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
