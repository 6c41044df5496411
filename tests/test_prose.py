"""Plain English: first words of docstrings, the length of their sentences, words they avoid."""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ["benchmarks", "docs", "ebmjax", "experiments", "tests"]
NOT_FIRST = {"What", "Of", "Where", "How", "As", "By", "Whether"}
AVOIDED = re.compile(r"\b(told|likewise|of (?:its|their) own|alike)\b", re.IGNORECASE)
MAX_WORDS = 30
MAX_WORDS_OF_PAGES = 25

KINDS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
HEADING = re.compile(r"(Args|Attributes|Returns|Raises|Example|Call|Source):$")
ITEM = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*: |- |\d+\. ")
CODE_OR_FORMULA = re.compile(r"``[^`]*``|:math:`[^`]*`")


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring in the text of a file, those of constants included."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        before = [node, *body]
        for previous, statement in zip(before, body, strict=False):
            documents = isinstance(previous, ast.Assign | ast.AnnAssign) or (
                previous is node and isinstance(node, KINDS)
            )
            match statement:
                case ast.Expr(ast.Constant(str() as value)) if documents:
                    yield statement.lineno, inspect.cleandoc(value)


def sentences(docstring: str) -> Iterator[str]:
    """Sentences outside of examples and displayed formulas; code and formulas are one word."""
    for block in docstring.split("\n\n"):
        lines = [line.strip() for line in block.splitlines()]
        paragraph: list[str] = []
        for line in [*lines, ""]:
            if line.startswith((">>>", ".. math::")):
                break  # to the end of the block
            if not line or HEADING.match(line) or ITEM.match(line):
                text = CODE_OR_FORMULA.sub("x", " ".join(paragraph))
                yield from re.split(r"(?<=[.!?])\s+(?=[A-Z\"(x])", text)
                paragraph = []
                line = ITEM.sub("", line, count=1) if ITEM.match(line) else line
            paragraph += [line] if line and not HEADING.match(line) else []


@cache
def documented(room: str) -> list[tuple[str, str]]:
    """Place and text of every docstring of a room, private ones included."""
    return [
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, text in docstrings(path.read_text())
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_the_thing_returned(room: str) -> None:
    found = [
        f"{place} begins with {first}"
        for place, text in documented(room)
        if (first := text.split()[0].strip("*`,.:;")) in NOT_FIRST
    ]
    assert not found, "\n".join(found)


def test_no_sentence_of_a_docstring_is_long() -> None:
    found = [
        f"{place} has a sentence of {len(sentence.split())} words: {sentence}"
        for place, text in documented("ebmjax")
        for sentence in sentences(text)
        if len(sentence.split()) > MAX_WORDS
    ]
    assert not found, "\n".join(found)


def test_docstrings_say_who_does_what() -> None:
    found = [
        f"{place} says {match[0]!r}"
        for place, text in documented("ebmjax")
        if (match := AVOIDED.search(text))
    ]
    assert not found, "\n".join(found)


PARTICIPLE = re.compile(
    r"\w+[^e]ed|built|chosen|done|drawn|found|frozen|given|held|kept|known|laid|learnt|left|made|meant|"
    r"said|seen|sent|shown|spent|taken|thrown|told|written"
)
ADJECTIVES = (
    "annealed averaged compiled controlled expected fitted frozen implied improved interpolated "
    "nested paired squared telescoped tempered transposed underdamped weighted"
)
"""Words that name a method or a quantity if a noun follows, as in ``squared_distances``."""
ALLOWED = {
    "tempered": "public, as the density that it returns",
    **dict.fromkeys(
        ("tilted_langevin", "tilted_langevin_init", "tilted_langevin_step"), "public, a density"
    ),
    "left_out_error": "the error where points are left out",
}


def participles(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of functions and methods of a file whose name begins with a participle."""
    tree = ast.parse(text)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for node in itertools.chain(*bodies):
        match node:
            case ast.FunctionDef(name=name) if not any(
                "property" in ast.unparse(one) for one in node.decorator_list
            ):
                first, _, noun = name.strip("_").partition("_")
                if PARTICIPLE.fullmatch(first) and not (noun and first in ADJECTIVES.split()):
                    yield node.lineno, name


def test_functions_are_verb_and_noun() -> None:
    """``open_figure``, not ``opened``: a reader can tell what the function does."""
    found = {
        name: f"{path.relative_to(ROOT)}:{line} {name}"
        for room in ("ebmjax", "experiments")
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, name in participles(path.read_text())
    }
    assert not found.keys() - ALLOWED, "\n".join(found[name] for name in found.keys() - ALLOWED)


def test_the_reader_of_function_names_knows_participles() -> None:
    text = (
        "def opened(): ...\ndef told_so(): ...\ndef feed(): ...\ndef squared_sum(): ...\n"
        "class A:\n    def _kept(self): ...\n    @property\n    def given(self): ...\n"
    )
    assert list(participles(text)) == [(1, "opened"), (2, "told_so"), (6, "_kept")]


def test_every_class_has_a_name_of_its_own() -> None:
    places: dict[str, str] = {}
    for path in sorted((ROOT / "ebmjax").rglob("*.py")) + sorted(
        (ROOT / "experiments").rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert node.name not in places, f"{node.name}: {path} and {places[node.name]}"
                places[node.name] = str(path)


PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "results"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_its_answer_in_short_sentences(page: Path) -> None:
    """tests/recipes/test_pages.py asks more of the pages of results."""
    text = re.sub(r"\A---\n.*?\n---\n\s*", "", page.read_text(), flags=re.DOTALL)  # of a notebook
    title, answer = text.split("\n\n")[:2]
    assert re.fullmatch(r"# .+", title)
    assert re.match(r"[A-Z]|`ebmjax", answer), "a paragraph: no heading, table, list or command"
    without_links = re.sub(r"\]\([^)]*\)", "]", re.sub(r"\$[^$]*\$|`[^`]*`", "x", answer))
    for sentence in re.split(r"(?<=[.!?:])\s+", without_links):
        assert len(sentence.split()) <= MAX_WORDS_OF_PAGES, sentence


def test_the_reader_of_docstrings_reads_them() -> None:
    text = (
        '"""Where."""\nLIMIT = 3\n"""Of it."""\nLIMIT\n"""none"""\n'
        'class A:\n    """By it."""\n    def f(self):\n        """``As`` f."""\n'
    )
    assert list(docstrings(text)) == [(1, "Where."), (3, "Of it."), (7, "By it."), (9, "``As`` f.")]


def test_the_reader_of_sentences_leaves_out_formulas_and_examples() -> None:
    text = """Adds :math:`a + b` to ``x y``. It
    is one.

    .. math:: a b c. D

    Args:
      a: left, e.g. 3. Right.

    Example:
      >>> add(1, 2). A
    """
    found = [sentence for sentence in sentences(inspect.cleandoc(text)) if sentence]
    assert found == ["Adds x to x.", "It is one.", "left, e.g. 3.", "Right."]
