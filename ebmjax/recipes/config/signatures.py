"""Reads fields from the signature of a function, ours or the user's.

Keyword-only arguments with an ``Annotated`` range are fields; their lines of ``Args:`` are the
texts.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

from ebmjax._ranges import Range
from ebmjax.recipes.config.declare import Field, field

LONGEST = 88
"""Characters of a text, at most."""


def read_fields(function: Callable[..., Any], **defaults: Any) -> dict[str, Field]:
    """Returns the fields that the keyword arguments of a function are, by name.

    ``defaults`` take the place of the signature's.
    """
    lines = re.findall(r"^  +(\w+): (.*(?:\n    +.*)*)", inspect.getdoc(function) or "", re.M)
    texts, found = dict(lines), {}
    for name, one in inspect.signature(function, eval_str=True).parameters.items():
        about = getattr(one.annotation, "__metadata__", ())
        values = next((value for value in about if isinstance(value, Range)), None)
        if values is not None and one.kind is one.KEYWORD_ONLY:
            text = shorten_text(texts.get(name, ""))
            found[name] = field(defaults.get(name, one.default), values, text)
    return found


def shorten_text(text: str) -> str:
    """Returns the beginning of a text for one line, without the marks of its formulas."""
    plain = re.sub(r":math:`([^`]*)`", lambda formula: formula[1].replace("\\", ""), text)
    plain = " ".join(plain.replace("`", "").split())
    plain = plain.partition(". ")[0].rstrip(".")
    while len(plain) > LONGEST and re.search("[,;(]", plain):
        plain = re.sub(r"\s*[,;(][^,;(]*$", "", plain)
    return plain[:LONGEST]
