"""Values as messages show them. Needs no JAX, so that a bad field is refused at once."""

from typing import Any

MAX_SHOWN = 80

SEE_FAQ = "See the page faq of the documentation, section 'It diverges'."
"""Ends every message of a divergence."""


def trim(value: Any) -> str:
    """Returns ``value`` for a message, on one line: in full if short, else its beginning."""
    text = " ".join(str(value).split())
    if len(text) <= MAX_SHOWN:
        return text
    shape = f" (of shape {value.shape})" if hasattr(value, "shape") else ""
    return f"{text[:MAX_SHOWN]}...{shape}"


def printable(text: str) -> str:
    """Returns ``text`` in which odd names, of files or fields, cannot disturb a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def duration(seconds: float) -> str:
    """Returns a duration in its unit, as coarse as an estimate is."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
