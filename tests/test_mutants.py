"""The tables of mutants fit the code, and mistakes are drawn as mistakes.py says."""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import covering
import mistakes
import mutants
import pytest

TESTS = Path(__file__).parent


def test_the_table_of_mutants_fits_the_code() -> None:
    table = mutants.read_table()
    assert len(table) >= 150
    assert mutants.table_errors(table) == []


def test_a_fragment_that_is_gone_and_a_test_that_is_not_there_are_told() -> None:
    gone = mutants.Mutant("gone", "ebmjax/types.py", "no such line", "", ("tests/no_file.py::f",))
    twice = mutants.Mutant("twice", "ebmjax/types.py", "PyTree", "Tree", ())
    told = "\n".join(mutants.table_errors([gone, twice, twice]))
    for expected in ("gone: 'no such line' must", "no test tests/no_file.py::f", "unique, found 2"):
        assert expected in told


def test_every_survivor_that_is_explained_can_still_be_drawn() -> None:
    for file, before, after in mutants.read_survivors():
        text = (mistakes.ROOT / file).read_text()
        shown = {one.shown(text) for place in mistakes.find(file).places for one in place}
        assert (before, after) in shown, f"{file}: {before} is gone"


CODE = '''
"""Text: 1 + 1."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 1

FILES_AT_ONCE = 7


def f(x: Literal[3], é=2.5, *, is_so=False) -> Literal[4]:
    """Text: 1 + 1."""
    if x < 1 and é:
        raise ValueError(f"{x + 1} of {9}")
    x = g("é", x - é, x**2)
    y = x if x is not None else [5] + x
    axes.plot(y, lw=3, marker=6)
    print(8)
    return -y
'''


def of_code(file: str = "ebmjax/some.py") -> list[tuple[str, str, str]]:
    """Kind, replaced text and replacement of every mistake of ``CODE``."""
    places = mistakes.Finder(file, CODE).places
    return [(one.kind, CODE[one.start : one.end], one.new) for place in places for one in place]


def test_mistakes_of_every_kind_are_found_and_text_types_and_looks_are_left_alone() -> None:
    guard = 'if x < 1 and é:\n        raise ValueError(f"{x + 1} of {9}")'
    call = 'g("é", x - é, x**2)'
    assert sorted(of_code()) == sorted(
        [
            *[("constant", "2.5", "5.0"), ("constant", "False", "True")],
            *[("line", one, "pass") for one in (guard, f"x = {call}")],
            *[("line", "axes.plot(y, lw=3, marker=6)", "pass"), ("line", "print(8)", "pass")],
            *[("comparison", "<", "<="), ("comparison", "<", ">"), ("operator", "and", "or")],
            *[("constant", "1", "2"), ("constant", "1", "0")],
            *[("arguments", '"é", x - é', 'x - é, "é"'), ("operator", "-", "+")],
            *[("arguments", "x - é, x**2", "x**2, x - é"), ("operator", "**", "*")],
            *[("constant", "2", "3"), ("constant", "2", "1"), ("comparison", "is not", "is")],
            *[("constant", "5", "6"), ("constant", "5", "4")],
            *[("constant", "6", "7"), ("constant", "6", "5"), ("operator", "-y", "(y)")],
        ]
    )


def test_numbers_of_experiments_are_left_alone() -> None:
    kinds = Counter(kind for kind, _, _ in of_code("experiments/configs/some.py"))
    assert kinds == Counter(kind for kind, _, _ in of_code() if kind != "constant")


def test_a_mistake_is_made_where_it_is_shown() -> None:
    place = mistakes.Finder("ebmjax/some.py", CODE).places
    (line,) = [one for [one, *_] in place if CODE[one.start : one.end].startswith("x = g(")]
    assert line.shown(CODE) == ('x = g("é", x - é, x**2)', "pass")
    assert line.made(CODE) == CODE.replace('x = g("é", x - é, x**2)', "pass")
    assert line.lines == (16, 16)


def test_a_seed_draws_the_same_mistakes_of_the_files_that_are_asked_for() -> None:
    drawn = mistakes.draw(40, 3, "ebmjax/metrics")
    assert drawn == mistakes.draw(40, 3, "ebmjax/metrics")
    assert len({*drawn, *mistakes.draw(40, 4, "ebmjax/metrics")}) > 60
    assert len({one.file for one in drawn}) > 5
    for one in drawn:
        assert one.file.startswith("ebmjax/metrics/")
        text = (mistakes.ROOT / one.file).read_text()
        assert ast.dump(ast.parse(one.made(text))) != ast.dump(ast.parse(text))


OWN, SLOW, BROAD, IMPORTS = (
    f"tests/{name}.py" for name in ("losses/own", "data/slow", "data/broad", "data/imports")
)


@pytest.fixture
def records(tmp_path, monkeypatch):
    """Four files of tests, of which three run line 30 of a file and one imports it alone."""
    file = "ebmjax/losses/_contrastive_divergence.py"

    def record(seconds, lines, others):
        files = {file: {"digest": "", "lines": lines}, "b": {"digest": "", "lines": others}}
        return {"digest": "", "seconds": seconds, "files": files}

    found = {
        SLOW: record(9.0, [30, 31], [1]),
        BROAD: record(1.0, [30, 31], list(range(98))),
        IMPORTS: record(1.0, [], [1]),
        OWN: record(99.0, [30, 31], list(range(98))),
    }
    monkeypatch.setattr(covering, "KEPT", tmp_path / "covering.json")
    covering.KEPT.write_text(json.dumps(found))
    return file


def test_tests_that_run_the_line_come_by_their_room_their_seconds_and_their_share(records) -> None:
    def tests_of(line):
        mistake = mistakes.Mistake(records, "operator", 0, 0, "", (line, line))
        return [test for test, _ in covering.tests_of(mistake)]

    assert tests_of(30) == [OWN, SLOW, BROAD]
    assert tests_of(34) == []
    assert tests_of(14) == [OWN, SLOW, BROAD]  # the signature of the function that has line 30
    assert tests_of(3) == [OWN, SLOW, IMPORTS, BROAD]  # runs at import


def test_a_mistake_that_ends_pytest_is_noticed(tmp_path) -> None:
    """In a process without JAX, which warns of processes that begin as copies."""
    (tmp_path / "test_end.py").write_text(
        "import os, signal\n\ndef test_end():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    code = """if True:
        import sys, pathlib, mutants
        where, tests = pathlib.Path(sys.argv[1]), ["test_end.py"]
        print(mutants.run_tests(where, tests, 60).killer)
        mutants.run_tests(where, tests)
    """
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path], cwd=TESTS, capture_output=True, text=True
    )
    assert ended.stdout == "pytest ended with -9\n"
    assert "RuntimeError: pytest cannot run ['test_end.py']" in ended.stderr
