"""Fields declared once: default, range, text, and the choice that brings a field into being.

A configuration has the fields of the parts that it names, and no others: ``loss.beta`` is there
where ``loss.name`` is beta. Defaults, range checks, ``ebmjax fields`` and docs/configuration.md all
come from the declarations of a family, a dict from dotted names to ``Field``.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ml_collections import ConfigDict, config_dict

from ebmjax._ranges import ANY, Range
from ebmjax._shown import trim
from ebmjax._user_function import is_function_name
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean


class When(NamedTuple):
    """Choice that brings a field into being: in words, and as a test of a configuration."""

    needs: str
    holds: Callable[[Config], Any]


@dataclass(frozen=True)
class Field:
    """One field of a family.

    Attributes:
      default: value where nobody sets it.
      values: range.
      text: one line, for people.
      when: choices of which each must be made; without any, every configuration has the field.
      off: value at which configurations lack the field; ...: they always have it.
    """

    default: Any
    values: Range
    text: str
    when: tuple[When, ...] = ()
    off: Any = ...

    def is_off(self, value: Any = ...) -> bool:
        """Returns whether a configuration with ``value``, or none, lacks the switched-off field."""
        return self.off is not ... and value in (self.off, ...)

    @property
    def is_many(self) -> bool:
        """Returns whether its value is a tuple."""
        return isinstance(self.default, tuple) or self.values.kind is tuple


Fields = Mapping[str, Field]

LONGEST = 88  # characters of a text that is read from a docstring

WITH_OPTIONS = (
    "evals.functions",
    "loss.name",
    "model.factory",
    "optimizer.name",
    "sampler.name",
    "sampler.names",
    "sampler.posterior.name",
    "sampler.prior.name",
)
"""Fields that name functions of the user which take options."""


class UnknownVariantError(ConfigError):
    """A configuration file has no such variant; ``known`` are those that it has."""

    known: Sequence[str] = ()


def field(default: Any, values: Range, text: str, *when: When) -> Field:
    """Declares a field; see ``Field``."""
    return Field(default, values, text, when)


def rare(default: Any, values: Range, text: str, *when: When) -> Field:
    """Declares a field that configurations have only where it is not at its default."""
    return Field(default, values, text, when, off=default)


def when_is(name: str, *values: Any) -> When:
    """The choice of one of ``values`` for the field ``name``, alone or among others."""
    return When(
        " or ".join(f"config.{name}={value}" for value in values),
        lambda config: any(one in values for one in entries_of(config.get(name))),
    )


def when_set(name: str) -> When:
    """The choice of any value for the field ``name`` but None, 0, False or none at all."""
    return When(f"config.{name}", lambda config: config.get(name))


def option_field(section: str, naming: Sequence[str]) -> Field:
    """Returns the field of an option of the user's function that one of ``naming`` names."""

    def holds(config: Config) -> bool:
        return any(is_users(one) for name in naming for one in entries_of(config.get(name)))

    needs = When(f"a function of your own, config.{naming[0]}=FILE.py:FUNCTION", holds)
    return Field(None, ANY, f"option of your own function of config.{section}", (needs,))


def is_users(name: Any) -> bool:
    """Returns whether the value of a field names a user's function instead of a part of ours."""
    return isinstance(name, str) and is_function_name(name)


def entries_of(value: Any) -> Sequence[Any]:
    """Returns the entries of a list or tuple; another value is the only one."""
    return value if isinstance(value, list | tuple) else [value]


def under(fields: Fields, *when: When) -> dict[str, Field]:
    """``fields`` with further conditions each."""
    return {name: replace(one, when=(*one.when, *when)) for name, one in fields.items()}


def defaults(fields: Fields) -> ConfigDict:
    """A new configuration with every field at its default."""
    config = ConfigDict()
    for name, one in fields.items():
        put(one, config, name, one.default)
    return config


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
    if variant and variant not in variants:
        known = ", ".join(variants)
        error = UnknownVariantError(f"unknown variant {variant!r}; there are {known}.")
        error.known = [*variants]
        raise error
    config = defaults(fields)
    for name, value in {**base, **variants.get(variant, {})}.items():
        if name not in fields:
            raise ConfigError(f"config.{name} is no field.{did_you_mean(name, fields)}")
        put(fields[name], config, name, value)
    return config


def put(one: Field, config: Config, name: str, value: Any) -> None:
    """Sets a field, made where it is missing; ConfigError for a value of another type."""
    *path, last = name.split(".")
    with config.unlocked():
        for part in path:
            if part not in config:
                config[part] = ConfigDict()
            config = config[part]
        if one.values is ANY or (
            last not in config and (one.values.may_be_none or one.values.kind is object)
        ):
            config[last] = config_dict.placeholder(one.values.kind)
        try:
            if value is None and not one.values.may_be_none:
                raise TypeError
            config[last] = value
        except TypeError as error:
            raise ConfigError(refusal_of(one, name, value)) from error


def from_json(one: Field, name: str, value: Any) -> Any:
    """Returns a field's value from what JSON says; ConfigError for another kind or range."""
    if value is None and one.values.may_be_none:
        return None
    is_kind = one.values is ANY or (isinstance(value, list) == one.is_many and value is not None)
    is_whole = type(one.default) is not int or one.values.kind is object or type(value) is int
    if is_kind and is_whole and one.values.refusal(value) is None:
        return tuple(value) if isinstance(value, list) else value
    raise ConfigError(refusal_of(one, name, value))


def from_text(one: Field, name: str, text: str) -> Any:
    """Returns a field's value from a command line's ``text``; ConfigError as ``from_json``."""
    kind = one.values.kind
    if text == "None" and one.values.may_be_none:
        return None
    value: Any = text
    if kind is not str or one.is_many:
        try:
            value = ast.literal_eval(text.capitalize() if kind is bool else text)
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            if kind not in (str, object):
                raise ConfigError(refusal_of(one, name, text)) from error
            value = text.split(",") if one.is_many else text
        if isinstance(value, tuple):
            value = list(value)
        elif one.is_many and not isinstance(value, list):
            value = [value]
    return from_json(one, name, value)


def refusal_of(one: Field, name: str, value: Any) -> str:
    """Returns the message for a value that a field does not take."""
    many = "a list, every entry " * one.is_many
    is_text = isinstance(value, str) and one.values.kind in (int, float)
    number = "a number, " * (is_text and "integer" not in one.values.words)
    words, near = one.values.refusal(value) or one.values.words, ""
    if one.values.choices and entries_of(value):
        value = next((entry for entry in entries_of(value) if not one.values.holds(entry)), value)
        near = did_you_mean(str(value), one.values.choices)
    return f"config.{name} must be {many}{number}{words}, got {trim(repr(value))}.{near}"


def read_fields(function: Callable[..., Any], **defaults: Any) -> dict[str, Field]:
    """Returns the fields that the keyword arguments of a function are, by name.

    ``defaults`` take the place of the signature's. A text is the beginning of a line of ``Args:``,
    without the marks of its formulas.
    """
    lines = re.findall(r"^  +(\w+): (.*(?:\n    +.*)*)", inspect.getdoc(function) or "", re.M)
    texts, found, unmark = dict(lines), {}, lambda formula: formula[1].replace("\\", "")
    for name, one in inspect.signature(function, eval_str=True).parameters.items():
        about = getattr(one.annotation, "__metadata__", ())
        values = next((value for value in about if isinstance(value, Range)), None)
        if values is not None and one.kind is one.KEYWORD_ONLY:
            formula = re.sub(r":math:`([^`]*)`", unmark, texts.get(name, ""))
            text = " ".join(formula.replace("`", "").split()).partition(". ")[0].rstrip(".")
            while len(text) > LONGEST and re.search("[,;(]", text):
                text = re.sub(r"\s*[,;(][^,;(]*$", "", text)
            found[name] = Field(defaults.get(name, one.default), values, text[:LONGEST])
    return found
