"""Which test files run which lines: measured by the default tests, one file at a time, and kept.

JAX traces a function once for each shape, so a line may run in the first test of a process alone.
Hence the unit is a file of tests in a process of its own, which is how it meets a mistake later.
"""

import ast
import hashlib
import json
import tempfile
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

from coverage import Coverage
from mistakes import ROOMS, ROOT, Mistake

KEPT = ROOT / ".cache" / "covering.json"
NOT_RUN = {"tests/test_mutants.py"}  # reads the code as text
READERS = (  # of all declarations, configurations and studies
    "tests/recipes/config/test_fields.py",
    "tests/recipes/test_configs.py",
    "tests/recipes/study/test_studies.py",
)
SETTINGS = """[run]
source = {sources}
data_file = {data}
parallel = true
patch = subprocess, _exit
disable_warnings = no-data-collected, module-not-imported, module-not-measured
"""

Run = Callable[[str, list[str]], tuple[str, float]]
"""Runs a test file under arguments of Python; returns the test that failed, or "", and seconds."""


def measure(copy: Path, files: Collection[str], run: Run) -> None:
    """Runs test files in ``copy`` where nothing is known of them, and keeps what they run.

    Run are those that are new or changed, and those that run one of ``files``, which has changed.

    Raises:
      RuntimeError: if a test fails.
    """
    records = _records()
    found = sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")
    )
    tests = [test for test in found if test not in NOT_RUN]
    records = {test: records[test] for test in tests if test in records}
    for test in tests:
        if test not in records or not _is_current(test, records[test], files):
            records[test] = _measured(copy, test, run)
            print(f"{test:60} {records[test]['seconds']:5.0f} s", flush=True)
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(records))


def tests_of(mistake: Mistake) -> list[tuple[str, float]]:
    """Returns the test files that run a mistake's statement, with their seconds.

    First come the tests of the same room, and those that are fast and run little beside the
    mistake's file. A default of a function's argument is met where the function runs; any other
    statement outside of functions is run by every import, and ``READERS`` come first.
    """
    room = Path(mistake.file).parts[1:-1]
    wanted = _lines_to_meet(mistake)
    is_inside = bool(wanted & _lines_of_functions(mistake.file))
    found = []
    for test, record in _records().items():
        if mistake.file in record["files"]:
            lines = set(record["files"][mistake.file]["lines"])
            if not is_inside or wanted & lines:
                total = sum(len(one["lines"]) for one in record["files"].values())
                cost = record["seconds"] * (total + 1) / (len(lines) or 0.1)
                is_elsewhere = Path(test).parts[1:-1] != room
                is_late = is_inside or test not in READERS
                found.append((is_late, is_elsewhere, cost, test, record["seconds"]))
    return [(test, seconds) for *_, test, seconds in sorted(found)]


def _records() -> dict[str, Any]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def _is_current(test: str, record: dict[str, Any], files: Collection[str]) -> bool:
    run = {file: one["digest"] for file, one in record["files"].items() if one["lines"]}
    wanted = {file: digest for file, digest in run.items() if file in files}
    return all(
        _digest(file) == digest for file, digest in [(test, record["digest"]), *wanted.items()]
    )


def _measured(copy: Path, test: str, run: Run) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "settings")
        sources = ", ".join(str(copy / room) for room in ROOMS)
        settings.write_text(SETTINGS.format(sources=sources, data=Path(folder, "data")))
        failed, seconds = run(test, ["-m", "coverage", "run", f"--rcfile={settings}"])
        if failed:
            raise RuntimeError(f"Without any mistake, {failed} fails: mend that first.")
        together = Coverage(config_file=str(settings))
        together.combine()
        data = together.get_data()
        files = {}
        for place in data.measured_files():
            file = Path(place).relative_to(copy).as_posix()
            if run_lines := set(data.lines(place) or ()):  # or nobody imported it
                lines = sorted(run_lines & _lines_of_functions(file))
                files[file] = {"digest": _digest(file), "lines": lines}
    return {"digest": _digest(test), "seconds": seconds, "files": files}


@cache
def _digest(file: str) -> str:
    path = ROOT / file
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


@cache
def _functions(file: str) -> list[ast.FunctionDef]:
    tree = ast.parse((ROOT / file).read_text())
    return [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]


def _lines_to_meet(mistake: Mistake) -> set[int]:
    """Returns a mistake's lines, or the lines of the function whose signature has it."""
    for one in _functions(mistake.file):
        if one.lineno <= mistake.lines[0] < one.body[0].lineno:
            return set(range(one.body[0].lineno, one.end_lineno + 1))
    return set(range(mistake.lines[0], mistake.lines[1] + 1))


@cache
def _lines_of_functions(file: str) -> frozenset[int]:
    """Returns the lines that run when a function is called, not when its file is imported."""
    bodies = _functions(file)
    return frozenset(n for one in bodies for n in range(one.body[0].lineno, one.end_lineno + 1))
