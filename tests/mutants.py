"""Mistakes made on purpose, one at a time, to see whether the default tests notice.

    python tests/mutants.py [--only NAME] [--list]

The table is mutants.toml. Each mutant runs in a copy of the tree, with the tests that are to catch
it. Exit code 0 where at least 95 % of the mutants are caught, 1 where fewer are, 2 where the table
is wrong or the tests fail without any mutant. Compiled programs come from the checkout's cache.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("benchmarks", "docs", "ebmjax", "experiments", "tests", "pyproject.toml", "README.md")
GOAL = 0.95
TIME_LIMIT = 600  # seconds; a mutant that hangs is caught


class Mutant(NamedTuple):
    """One mistake.

    Attributes:
      name: unique.
      file: path from the root of the project.
      old: fragment of one line, found once in the file.
      new: what replaces it.
      tests: files or node ids below tests/, of which one must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class Outcome(NamedTuple):
    """Result of the tests of one mutant.

    Attributes:
      killer: the test that failed first, "" where none did.
      seconds: wall-clock time.
    """

    killer: str
    seconds: float


def read_table() -> list[Mutant]:
    """Returns the mutants of mutants.toml, in its order."""
    table = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())
    return [
        Mutant(name, file, old, new, tuple(f"tests/{test}" for test in tests.split()))
        for file, mutants in table.items()
        for name, (old, new, tests) in mutants.items()
    ]


def table_errors(mutants: list[Mutant]) -> list[str]:
    """Returns a line for every mutant that cannot be made as it is written."""
    errors = []
    names = [mutant.name for mutant in mutants]
    for name, file, old, new, tests in mutants:
        path = ROOT / file
        count = path.read_text().count(old) if path.exists() else 0
        if count != 1 or old == new or "\n" in old:
            errors.append(f"{name}: {old!r} must occur once in {file}, found {count} times.")
        if names.count(name) > 1:
            errors.append(f"{name}: the name must be unique, found {names.count(name)} times.")
        for test in tests:
            path, _, function = test.partition("::")
            is_there = (ROOT / path).exists() and f"def {function}" in (ROOT / path).read_text()
            if not is_there:
                errors.append(f"{name}: there is no test {test}.")
    return errors


def run_tests(copy: Path, tests: tuple[str, ...], time_limit: float | None = None) -> Outcome:
    """Runs default tests in ``copy`` until one fails.

    Raises:
      RuntimeError: if pytest ran no test.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-rfE", *tests]
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    environment = os.environ | {"PYTHONPATH": str(copy), "JAX_COMPILATION_CACHE_DIR": cache}
    started = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider"],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=time_limit,
        )
    except subprocess.TimeoutExpired:
        return Outcome(f"no end within {time_limit} s", time.perf_counter() - started)
    seconds = time.perf_counter() - started
    if done.returncode == 0:
        return Outcome("", seconds)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (1, 2) or failed is None:
        raise RuntimeError(f"pytest ran no test of {tests}:\n{done.stdout}{done.stderr}")
    return Outcome(failed[1], seconds)


def run_mutant(copy: Path, mutant: Mutant) -> Outcome:
    """Runs the tests of ``mutant`` in ``copy``, which is as before afterwards."""
    path = copy / mutant.file
    whole = path.read_text()
    path.write_text(whole.replace(mutant.old, mutant.new))
    try:
        return run_tests(copy, mutant.tests, TIME_LIMIT)
    finally:
        path.write_text(whole)


def copy_tree(folder: Path) -> None:
    """Copies what tests need, without what is generated."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)


def run_all(mutants: list[Mutant]) -> int:
    """Prints a line a mutant and the share that was caught. Returns the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_tree(copy)
        tests = tuple(sorted({test for mutant in mutants for test in mutant.tests}))
        sound = run_tests(copy, tests)
        if sound.killer:
            print(f"Without any mutant, {sound.killer} fails: mend that first.", file=sys.stderr)
            return 2
        print(f"{'no mutant':40} passes    {sound.seconds:5.0f} s", flush=True)
        num_caught = 0
        for mutant in mutants:
            killer, seconds = run_mutant(copy, mutant)
            num_caught += bool(killer)
            told = "caught  " if killer else "SURVIVED"
            print(f"{mutant.name:40} {told}  {seconds:5.0f} s  {killer}", flush=True)
    print(f"{num_caught} of {len(mutants)} caught; the goal is {GOAL:.0%}.")
    return int(num_caught < GOAL * len(mutants))


def main() -> int:
    """Runs the command. Returns its exit code."""
    parser = argparse.ArgumentParser(description="Run mutants of the library against its tests.")
    parser.add_argument("--only", metavar="NAME", action="append", help="this mutant; repeatable")
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    options = parser.parse_args()
    mutants = read_table()
    unknown = set(options.only or ()) - {mutant.name for mutant in mutants}
    errors = table_errors(mutants) + [f"There is no mutant {name}." for name in sorted(unknown)]
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 2
    if options.list:
        for name, file, old, new, _ in mutants:
            print(f"{name:40} {file}: {old} -> {new}")
        return 0
    return run_all([m for m in mutants if not options.only or m.name in options.only])


if __name__ == "__main__":
    sys.exit(main())
