"""Mistakes made on purpose, one at a time, to see whether the default tests notice.

    python tests/mutants.py [--only NAME] [--list]
    python tests/mutants.py --random NUMBER [--seed SEED] [--within PATH] [--list]

The table is mutants.toml: known mistakes, each with the tests that are to catch it. ``--random``
draws mistakes from all the code (mistakes.py), to be caught by any default test that runs the line
(covering.py). survivors.toml says which of them no test can catch, and why.

Each mutant runs in a copy of the tree. Exit code 0 where at least 95 % of the mutants are caught, 1
where fewer are, 2 where the table is wrong or the tests fail without any mutant. Compiled programs
come from the checkout's cache.
"""

import argparse
import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import covering
import mistakes
from mistakes import ROOT

FILES = ("pyproject.toml", ".gitignore", *sorted(page.name for page in ROOT.glob("*.md")))
COPIED = ("benchmarks", "docs", "ebmjax", "experiments", "tests", *FILES)
GOAL = 0.95
TIME_LIMIT = 600  # seconds; a mutant that hangs is caught
MEMORY_LIMIT = 12 * 2**30  # bytes of addresses; a run of tests has 3 GB


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


def run_tests(
    copy: Path, tests: Sequence[str], time_limit: float | None = None, before: Sequence[str] = ()
) -> Outcome:
    """Runs tests in ``copy`` until one fails, ``before`` between Python and pytest.

    Tests that are named run if they are slow, too; of whole files the default ones.

    The tests have a new home and leave no process and no file. Within a time limit, a mistake is
    expected: if it ends pytest itself, by the limit of memory, say, it is noticed.

    Raises:
      RuntimeError: if pytest could not run them.
    """
    command = [sys.executable, *before, "-m", "pytest", "-x", "-q", "-n", "0", "-rfE", *tests]
    command += ["-m", ""] * (len(tests) > 0 and all("::" in test for test in tests))
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    environment = os.environ | {"PYTHONPATH": str(copy), "JAX_COMPILATION_CACHE_DIR": cache}
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [*command, "-p", "no:cacheprovider"],
            cwd=copy,
            env=environment | {"HOME": home, "TMPDIR": home},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT,) * 2),
        )
        try:
            told, _ = process.communicate(timeout=time_limit)
        except subprocess.TimeoutExpired:
            return Outcome(f"no end within {time_limit:.0f} s", time.perf_counter() - started)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    seconds = time.perf_counter() - started
    if process.returncode in (0, 5):  # 5 where all tests of a file are slow ones
        return Outcome("", seconds)
    if time_limit is not None and (process.returncode == 3 or process.returncode < 0):
        return Outcome(f"pytest ended with {process.returncode}", seconds)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
    if process.returncode not in (1, 2) or failed is None:
        raise RuntimeError(f"pytest cannot run {tests}:\n{told}")
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


def run_table(mutants: list[Mutant]) -> int:
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


def read_survivors() -> dict[tuple[str, str, str], str]:
    """Returns the reasons of survivors.toml, by the file and its line before and after."""
    table = tomllib.loads((ROOT / "tests" / "survivors.toml").read_text())
    return {
        (file, before, after): reason
        for file, survivors in table.items()
        for before, after, reason in survivors.values()
    }


def run_drawn(drawn: list[mistakes.Mistake]) -> int:
    """Prints a line a mistake, and how many were caught. Returns the exit code."""
    reasons = read_survivors()
    num_caught = num_explained = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        copy_tree(copy)
        covering.measure(
            copy,
            {one.file for one in drawn},
            lambda test, before: run_tests(copy, [test], before=before),
        )
        for number, one in enumerate(drawn, 1):
            before, after = one.shown((ROOT / one.file).read_text())
            reason = reasons.get((one.file, before, after))
            killer, seconds = ("", 0.0) if reason else run_mistake(copy, one)
            num_explained += bool(reason)
            num_caught += bool(killer)
            told = "explained" if reason else "caught   " if killer else "SURVIVED "
            print(f"{number:4} {told} {seconds:5.0f} s  {one.file}:{one.lines[0]}  {killer}")
            if not killer:
                print(f"name = {[before, after, reason or 'WHY?']}")
            sys.stdout.flush()
    num_real = len(drawn) - num_explained
    print(
        f"{num_caught} of {len(drawn)} caught. survivors.toml explains {num_explained}; of the "
        f"others, {num_real - num_caught} survived. The goal is {GOAL:.0%} of these {num_real}."
    )
    return int(num_caught < GOAL * num_real)


def run_mistake(copy: Path, mistake: mistakes.Mistake) -> Outcome:
    """Runs every test file that covers ``mistake`` in ``copy`` until one fails.

    A file has five times as long as it took without a mistake, and a minute.
    """
    path = copy / mistake.file
    whole, times = path.read_text(), path.stat()
    path.write_text(mistake.made(whole))
    total = 0.0
    try:
        for test, usual in covering.tests_of(mistake):
            killer, seconds = run_tests(copy, [test], 60 + 5 * usual)
            total += seconds
            if killer:
                return Outcome(killer, total)
    finally:
        path.write_text(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return Outcome("", total)


def main() -> int:
    """Runs the command. Returns its exit code."""
    parser = argparse.ArgumentParser(description="Run mutants of the library against its tests.")
    parser.add_argument("--only", metavar="NAME", action="append", help="this mutant; repeatable")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--random", metavar="NUMBER", type=int, help="draw mistakes, this many")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    parser.add_argument("--within", metavar="PATH", default="", help="draw below this path alone")
    options = parser.parse_args()
    if options.random:
        drawn = mistakes.draw(options.random, options.seed, options.within)
        for one in drawn if options.list else []:
            before, after = one.shown((ROOT / one.file).read_text())
            print(f"{one.file}:{one.lines[0]} ({one.kind})\n  {before}\n  {after}")
        return 0 if options.list else run_drawn(drawn)
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
    return run_table([m for m in mutants if not options.only or m.name in options.only])


if __name__ == "__main__":
    sys.exit(main())
