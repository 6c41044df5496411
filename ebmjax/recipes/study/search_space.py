"""Reads the space of a search: ``--space=FIELD[=RANGE]``, fields with the values that they take."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from ebmjax.recipes.config.declare import Field, Fields, refusal_of
from ebmjax.recipes.config.errors import ConfigError, did_you_mean

TRACED = re.compile(
    r"sampler\.(?!augmentation|buffer\.start|final_step).+|model\.\w*scale"
    r"|loss\.(?!max_positive_weight|kl_weight).+|optimizer\.(rho|(\w+\.)?(final_)?learning_rate)"
)
"""Names of the fields whose numbers the compiled training step takes as arguments."""


@dataclass(frozen=True)
class Space:
    """The fields of a search.

    Attributes:
      fields: name to the values that it takes; names and lists hold texts, as one types them.
      traced: names of the fields whose values share a compiled training step.
    """

    fields: Mapping[str, BaseDistribution]
    traced: frozenset[str]

    @property
    def structural(self) -> list[str]:
        """Returns the fields of which every value compiles a training step."""
        return [name for name in self.fields if name not in self.traced]

    def combinations(self, names: Iterable[str], most: int) -> list[dict[str, Any]]:
        """Returns all values of some fields together; none if they are more than ``most``."""
        chosen = {name: _values(self.fields[name]) for name in names}
        if math.prod(len(values) if values else math.inf for values in chosen.values()) > most:
            return []
        products = itertools.product(*(values or () for values in chosen.values()))
        return [dict(zip(chosen, values, strict=True)) for values in products]

    def describe(self) -> list[str]:
        """Returns a line for each field: its range, its scale, and whether it compiles anew."""
        lines = []
        for name, one in self.fields.items():
            anew = "" if name in self.traced else "; compiles for every value"
            lines.append(f"  {name}: {_describe(one)}{anew}")
        return lines


def read_space(texts: Sequence[str], fields: Fields) -> Space:
    """Returns the space of arguments ``FIELD`` or ``FIELD=RANGE``.

    A range is "LOW..HIGH" or "A,B,C". Without one it is the field's own, where that has two ends or
    names. Numbers are drawn on a log scale where LOW is above 0 and HIGH at least ten times it.

    Raises:
      ConfigError: for an unknown field or a wrong range, and where a range is needed.
    """
    found: dict[str, BaseDistribution] = {}
    for text in texts:
        name, _, given = text.removeprefix("config.").partition("=")
        if name not in fields or name in ("family", "seed"):
            raise ConfigError(
                f"--space={text}: config.{name} is no field that can be searched."
                f"{did_you_mean(name, fields)} `ebmjax fields CONFIG` prints all."
            )
        if name in found:
            raise ConfigError(f"--space={name} is given twice: give one range.")
        found[name] = _distribution(name, fields[name], given)
    kinds = {name: fields[name].values.kind for name in found}
    has_none = {name for name, one in found.items() if "None" in (_values(one) or ())}
    numbers = {name for name in found if kinds[name] is float and TRACED.fullmatch(name)}
    return Space(found, frozenset(numbers - has_none))


def _distribution(name: str, one: Field, given: str) -> BaseDistribution:
    values = one.values
    is_single = not isinstance(one.default, tuple) and values.kind in (int, float)
    if not given:
        names = values.choices or (("False", "True") if values.kind is bool else ())
        if names:
            return CategoricalDistribution(names)
        if values.ends is None or not is_single:
            raise ConfigError(
                f"--space={name} needs a range, since config.{name} may be any value that is "
                f"{values.words}: --space={name}=LOW..HIGH for numbers, or =A,B,C."
            )
        return _numbers(*values.ends, is_whole=values.kind is int)
    ends = given.split("..")
    if len(ends) == 2 and is_single:
        return _narrow(name, one, *ends)
    entries = [entry.strip() for entry in given.split(",")]
    if len(entries) < 2 or "" in entries or len({*entries}) < len(entries):
        raise ConfigError(
            f"--space={name}={given} must be LOW..HIGH, numbers, or A,B,C, two different values or "
            f"more; one value is set by --config.{name}=VALUE."
        )
    return CategoricalDistribution(entries)


def _narrow(name: str, one: Field, *texts: str) -> BaseDistribution:
    """Returns the numbers between two ends, which the field's own range holds."""
    is_whole = one.values.kind is int
    try:
        low, high = (int(text) if is_whole else float(text) for text in texts)
    except ValueError:
        low, high = 0, 0  # refused below
    if not low < high:
        raise ConfigError(
            f"--space={name}={'..'.join(texts)} must be LOW..HIGH, "
            f"{'whole ' * is_whole}numbers with LOW below HIGH."
        )
    for end in (low, high):
        if one.values.refusal(end):
            raise ConfigError(f"--space={name}: {refusal_of(one, name, end)}")
    return _numbers(low, high, is_whole=is_whole)


def _numbers(low: float, high: float, *, is_whole: bool) -> BaseDistribution:
    is_log = low > 0 and high >= 10 * low
    if is_whole:
        return IntDistribution(int(low), int(high), log=is_log)
    return FloatDistribution(low, high, log=is_log)


def _values(one: BaseDistribution) -> Sequence[Any] | None:
    """Returns all values; None for real numbers."""
    if isinstance(one, CategoricalDistribution):
        return one.choices
    return range(one.low, one.high + 1) if isinstance(one, IntDistribution) else None


def edges(one: BaseDistribution) -> Sequence[Any]:
    """Returns both ends, or all names."""
    if isinstance(one, FloatDistribution | IntDistribution):
        return one.low, one.high
    return _values(one) or ()


def _describe(one: BaseDistribution) -> str:
    if isinstance(one, CategoricalDistribution):
        return ", ".join(map(str, one.choices))
    assert isinstance(one, FloatDistribution | IntDistribution)
    return f"{one.low:g} to {one.high:g}{', on a log scale' if one.log else ''}"
