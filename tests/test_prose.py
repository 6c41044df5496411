"""Plain English: docstrings begin with a verb or with the thing returned."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ["benchmarks", "ebmjax", "experiments"]
NOT_FIRST = {"What", "Of", "Where", "How", "As", "By"}


def first_words(text: str) -> Iterator[tuple[int, str]]:
    """Line and first word of every docstring in the text of a file, private ones included."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        docstring = ast.get_docstring(node) if isinstance(node, kinds) else None
        if docstring:
            yield node.body[0].lineno, docstring.split()[0].strip("*`,.:;")


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_the_thing_returned(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} begins with {word}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, word in first_words(path.read_text())
        if word in NOT_FIRST
    ]
    assert not found, "\n".join(found)


def test_the_reader_of_docstrings_reads_them() -> None:
    text = '"""Where."""\nclass A:\n    """By it."""\n    def f(self):\n        """``As`` f."""\n'
    assert list(first_words(text)) == [(1, "Where"), (3, "By"), (5, "As")]
