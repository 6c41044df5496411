"""Ranges of fields: which values a field takes, in words and as a test."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ebmjax._user_function import is_function_name, names_code

MAX_SEED = 2**32 - 1
"""Largest seed: JAX's keys are made of 32 bits."""

MAX_INTEGER = 2**31 - 1
"""Largest integer of a program, which counts in 32 bits."""

MAX_FLOAT, MIN_FLOAT = 3.4028234663852886e38, 1.1754943508222875e-38
"""Largest and smallest normal number of a program's 32 bits."""

ONE = 1 - 2**-25
"""From here on a number is 1 in 32 bits."""


@dataclass(frozen=True, repr=False)
class Range:
    """Values that a field takes; a tuple's entries are tested one by one.

    Attributes:
      words: the values, for messages: "must be <words>".
      holds: tests a number or text.
      kind: type of the field where it has no value yet.
      examples: a few values of the range, for tests.
      choices: all values, where these are names.
      may_be_none: whether the field may be left without a value.
      names_code: tells the values that name code from outside the package.
      may_be_empty: whether a tuple may have no entry.
      ends: the smallest and the largest number, where there are both.
      is_pair: whether a tuple has two entries, the lower one first.
    """

    words: str
    holds: Callable[[Any], bool]
    kind: type = float
    examples: tuple[Any, ...] = ()
    choices: tuple[str, ...] = ()
    may_be_none: bool = False
    names_code: Callable[[str], bool] = lambda value: False
    may_be_empty: bool = True
    ends: tuple[float, float] | None = None
    is_pair: bool = False

    def __repr__(self) -> str:
        return self.words + ", or None" * self.may_be_none

    def refusal(self, value: Any) -> str | None:
        """Words for what ``value`` must be; None if it is fine."""
        if value is None:
            return None
        entries = list(value) if isinstance(value, list | tuple) else [value]
        if not all(map(self.holds, entries)):
            return self.words
        if self.is_pair and not (len(entries) == 2 and entries[0] < entries[1]):
            return f"{self.words}, two of them, the lower one first"
        if not entries and not self.may_be_empty:
            return f"{self.words}, at least one"
        numbers = [] if self is SEED else [v for v in entries if isinstance(v, int | float) and v]
        for v in numbers:
            least, most = (1, MAX_INTEGER) if isinstance(v, int) else (MIN_FLOAT, MAX_FLOAT)
            if not least <= abs(v) <= most:
                return f"a number that 32 bits hold, an integer of at most {MAX_INTEGER}"
        return None


def optional(values: Range) -> Range:
    """``values``, or None."""
    return replace(values, may_be_none=True)


def one_of(*choices: str) -> Range:
    """Some names."""
    return Range(f"one of {sorted(choices)}", lambda v: v in choices, str, choices, choices=choices)


def one_of_or_function(*choices: str) -> Range:
    """Some names of ours, or a function of the user's own file or module."""
    return Range(
        f"one of {sorted(choices)}, or FILE.py:FUNCTION",
        lambda v: isinstance(v, str) and (v in choices or is_function_name(v)),
        str,
        (*choices, "module:function"),
        choices=choices,
        names_code=is_function_name,
    )


def _number(words: str, holds: Callable[[Any], bool], *examples: float) -> Range:
    """A number that is no bool, which is an integer in Python."""

    def test(v: Any) -> bool:
        return isinstance(v, int | float) and not isinstance(v, bool) and holds(v)

    return Range(words, test, float, examples)


def _integer(words: str, holds: Callable[[Any], bool], *examples: int) -> Range:
    return Range(words, lambda v: type(v) is int and holds(v), int, examples)


POSITIVE = _number("positive and finite", lambda v: 0 < v < math.inf, 0.5, 2.0)
NOT_NEGATIVE = _number("finite and at least 0", lambda v: 0 <= v < math.inf, 0.0, 0.5)
FRACTION = replace(_number("in [0, 1)", lambda v: 0 <= v < ONE, 0.0, 0.25), ends=(0.0, 1 - 2**-24))
UP_TO_ONE = _number("in (0, 1]", lambda v: 0 < v <= 1, 0.5, 1.0)
PROBABILITY = replace(_number("in [0, 1]", lambda v: 0 <= v <= 1, 0.0, 0.5), ends=(0.0, 1.0))
FINITE = _number("finite", lambda v: -math.inf < v < math.inf, 0.0, -0.5)
PAIR = replace(FINITE, kind=tuple, examples=((0.0, 1.0), (0, 4095)), is_pair=True)
BELOW_ONE = _number("finite and below 1", lambda v: -math.inf < v < ONE, 0.0, 0.25)
EXPONENT = _number("from 0.01 to 10", lambda v: 0.01 <= v <= 10, 0.5, 6.0)
RADIUS = _number("from 0 to 10000", lambda v: 0 <= v <= 1e4, 1, 2)
WHOLE = _integer("an integer of at least 0", lambda v: v >= 0, 0, 3)
COUNT = _integer("an integer of at least 1", lambda v: v >= 1, 1, 3)
TWO_OR_MORE = _integer("an integer of at least 2", lambda v: v >= 2, 2, 4)
EIGHTS = _integer("a multiple of 8 of at least 16", lambda v: v >= 16 and v % 8 == 0, 16, 64)
WIDTHS = replace(COUNT, may_be_empty=False)
COUNTS = replace(WIDTHS, kind=tuple, examples=((1,), (3, 2)))
HOLDOUT = _number(
    "0, a fraction below 1, or a whole number", lambda v: 0 <= v < ONE or v % 1 == 0 < v, 0, 5, 0.2
)
GRID = _integer("an integer from 10 to 5000", lambda v: 10 <= v <= 5000, 10, 60)
SEED = _integer(f"an integer from 0 to {MAX_SEED}", lambda v: 0 <= v <= MAX_SEED, 0, 3)
FLAG = Range("True or False", lambda v: isinstance(v, bool), bool, (False, True))
TEXT = Range("text", lambda v: isinstance(v, str), str, ("", "some"))
ANY = Range("any value", lambda v: True, object, may_be_none=True)
PATH = replace(TEXT, words="a path, or empty")
OURS = frozenset(
    f"ebmjax.networks:{name}"
    for name in (
        "ConvClassifier",
        "ConvEnergy",
        "ConvGenerator",
        "LatentEnergy",
        "MLPEnergy",
        "ResidualEnergy",
    )
)
"""Functions of the package that make networks. Others of it read files or run what they name."""

FUNCTIONS = Range(
    "FILE.py:FUNCTION or MODULE:FUNCTION",
    lambda v: isinstance(v, str) and is_function_name(v),
    str,
    ("module:function",),
    names_code=is_function_name,
)
FUNCTION = Range(
    "FILE.py:FUNCTION, MODULE:FUNCTION or empty",
    lambda v: isinstance(v, str) and (not v or is_function_name(v)),
    str,
    ("", "module:function"),
    names_code=lambda v: bool(v) and v not in OURS,
)
NAME = Range("a name", lambda v: isinstance(v, str) and bool(v), str, ("some", "other"))
SOURCE = replace(NAME, names_code=names_code)
BANDWIDTH = Range(
    "positive, or 'median'", lambda v: v == "median" or POSITIVE.holds(v), object, ("median", 0.5)
)
