"""Fields declared once: default, range, text, and when a field has an effect.

Defaults, range checks, "no effect here", ``ebmjax fields`` and docs/configuration.md all come from
the declarations of a family, a dict from dotted names to ``Field``. Nothing here imports JAX.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ml_collections import ConfigDict, config_dict

from ebmjax._ranges import Range
from ebmjax._shown import trim
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean


class When(NamedTuple):
    """Condition under which a field has an effect.

    Attributes:
      needs: words for what must be set.
      holds: tests a configuration.
      may_preset: whether a configuration file may set the field for another choice than its own, as
        it does the depth of our network beside a user's. A command line may not.
    """

    needs: str
    holds: Callable[[Config], Any]
    may_preset: bool = False


class Part(NamedTuple):
    """A part that configurations may name, whose section only those have that do.

    Attributes:
      section: of its fields, such as "sampler.mala".
      named: the condition that a configuration names it.
    """

    section: str
    named: When


@dataclass(frozen=True)
class Field:
    """One field of a family.

    Attributes:
      default: value where nobody sets it.
      values: range.
      text: one line, for people.
      when: conditions of which each must hold; without any the field always has an effect.
      part: the part in whose section it is; None if every configuration of the family has it.
    """

    default: Any
    values: Range
    text: str
    when: tuple[When, ...] = ()
    part: Part | None = None


Fields = Mapping[str, Field]


class UnknownVariantError(ValueError):
    """A configuration file has no such variant; ``known`` are those that it has."""

    def __init__(self, message: str, known: Sequence[str] = ()):
        super().__init__(message)
        self.known = list(known)


def field(default: Any, values: Range, text: str, *when: When) -> Field:
    """Declares a field; see ``Field``."""
    return Field(default, values, text, when)


def when_is(name: str, *values: Any, what: str = "") -> When:
    """The condition that the field ``name`` has one of ``values``, or names one of them."""
    choice = " or ".join(f"config.{name}={value}" for value in values)

    def holds(config: Config) -> bool:
        value = config[name]
        return any(one in values for one in (value if isinstance(value, list | tuple) else [value]))

    return When(f"{what}, {choice}" if what else choice, holds)


def when_other_than(name: str, value: Any, what: str) -> When:
    """The condition that the field ``name`` is not ``value``."""
    return When(f"{what}, config.{name} other than {value}", lambda c: c[name] != value)


def when_set(name: str, what: str = "") -> When:
    """The condition that the field ``name`` is set: not None, 0, False or empty."""
    return When(f"{what}, config.{name}" if what else f"config.{name}", lambda c: c[name])


def when_above_zero(name: str, what: str) -> When:
    """The condition that the number ``name`` is above 0."""
    return When(f"{what}, config.{name} above 0", lambda c: c[name] > 0)


def allow_preset(when: When) -> When:
    """``when`` for a field that configuration files may set for another choice."""
    return when._replace(may_preset=True)


def under(fields: Fields, *when: When) -> dict[str, Field]:
    """``fields`` with further conditions each."""
    return {name: replace(one, when=(*one.when, *when)) for name, one in fields.items()}


def section(name: str, fields: Fields, *when: When) -> dict[str, Field]:
    """``fields`` below ``name``, all of them with the conditions ``when``."""
    return {f"{name}.{key}": one for key, one in under(fields, *when).items()}


def defaults(fields: Fields) -> ConfigDict:
    """A new configuration with every field at its default."""
    config = ConfigDict()
    for name, one in fields.items():
        *path, last = name.split(".")
        place: Any = config
        for part in path:
            if part not in place:
                place[part] = ConfigDict()
            place = place[part]
        if one.values.may_be_none or one.values.kind is object:
            place[last] = config_dict.placeholder(one.values.kind)
        if one.default is not None:
            place[last] = one.default
    return config


def names(config: Config, section: str = "") -> set[str]:
    """The dotted names of a configuration's fields and sections."""
    found: set[str] = set()
    for key, value in config.items():
        found |= {section + key}
        found |= names(value, f"{section}{key}.") if isinstance(value, ConfigDict) else set()
    return found


def configure(
    fields: Fields,
    variant: str = "",
    base: Mapping[str, Any] = {},
    variants: Mapping[str, Any] = {},
) -> ConfigDict:
    """Defaults with ``base`` and then the changes of ``variant``, by dotted field names.

    "" is the base itself.

    Raises:
      UnknownVariantError: for a variant that does not exist.
      ConfigError: for a field that does not exist, or a value of another type.
    """
    known = {"": {}, **variants}
    if variant not in known:
        names = [name for name in known if name]
        raise UnknownVariantError(
            f"unknown variant {variant!r}; there are {', '.join(names)}.", names
        )
    config = defaults(fields)
    for name, value in {**base, **known[variant]}.items():
        try:
            config.update_from_flattened_dict({name: value})
        except (TypeError, KeyError, AttributeError) as error:
            if name in fields:
                raise ConfigError(refusal_of(fields[name], name, value)) from error
            raise ConfigError(f"config.{name} is no field.{did_you_mean(name, fields)}") from error
    return config


def check(fields: Fields, config: Config, typed: Collection[str] = ()) -> None:
    """Raises ConfigError for values out of range, and for fields that are set without effect.

    Args:
      fields: of the configuration's family.
      config: has these fields.
      typed: names of the fields that a command line sets.
    """
    check_ranges(fields, config)
    for name in fields:
        why = no_effect(fields, config, name, typed)
        if why is not None and config[name] != fields[name].default:
            raise ConfigError(
                f"config.{name}={config[name]} has no effect here: it needs {why}. Set that, or "
                f"--config.{name}={fields[name].default}."
            )


def from_json(one: Field, name: str, value: Any) -> Any:
    """Returns the value of a field as a configuration holds it, from what JSON says.

    Raises:
      ConfigError: unless it has the field's kind and lies in its range.
    """
    is_many = isinstance(one.default, tuple) or one.values.kind is tuple
    if value is None and one.values.may_be_none:
        return None
    if isinstance(value, list) == is_many and value is not None:
        is_any = type(one.default) is not int or one.values.kind is object
        is_whole = is_any or type(value) is int
        if is_whole and one.values.refusal(value) is None:
            return tuple(value) if isinstance(value, list) else value
    raise ConfigError(refusal_of(one, name, value))


def refusal_of(one: Field, name: str, value: Any) -> str:
    """Returns the message for a value that is not of the field's kind."""
    is_many = isinstance(one.default, tuple) or one.values.kind is tuple
    many = "a list, every entry " * is_many
    is_text = isinstance(value, str) and one.values.kind in (int, float)
    number = "a number, " * (is_text and "integer" not in one.values.words)
    return f"config.{name} must be {many}{number}{one.values.words}, got {trim(repr(value))}."


def find_code(fields: Fields, config: Config) -> dict[str, Any]:
    """Returns the fields that name code from outside the package, with their values."""

    def names_code(one: Field, value: Any) -> bool:
        entries = value if isinstance(value, list | tuple) else [value]
        return any(isinstance(entry, str) and one.values.names_code(entry) for entry in entries)

    return {name: config[name] for name, one in fields.items() if names_code(one, config[name])}


def no_effect(
    fields: Fields, config: Config, name: str, typed: Collection[str] | None = None
) -> str | None:
    """Words for what a field needs to have an effect; None if it has one.

    With ``typed``, the names that a command line sets, a field that a file may preset counts only
    if it is one of them. So do the fields of a part that is not named.
    """
    part = fields[name].part
    if part and not part.named.holds(config):
        return part.named.needs if typed is None or name in typed else None
    for when in fields[name].when:
        waits = when.may_preset and typed is not None and name not in typed
        if not waits and not when.holds(config):
            return when.needs
    return None


def check_ranges(fields: Fields, config: Config) -> None:
    """Raises ConfigError for the first field whose value is out of range."""
    for name, one in fields.items():
        value, values = config[name], one.values
        is_many = isinstance(value, list | tuple)
        entries, hint = value if is_many else [value], f"Set it with --config.{name}=..."
        if not entries and not values.may_be_empty:
            raise ConfigError(
                f"config.{name} must have at least one entry, {values.words}, got {value!r}. {hint}"
            )
        expected = values.refusal(value)
        if expected is not None and values.choices:
            wrong = next(entry for entry in entries if not values.holds(entry))
            near = did_you_mean(str(wrong), values.choices)
            raise ConfigError(f"config.{name} must be {expected}, got {wrong!r}.{near}")
        if expected is not None:
            where = " in every entry" * is_many
            raise ConfigError(
                f"config.{name} must be {expected}{where}, got {trim(repr(value))}. {hint}"
            )
