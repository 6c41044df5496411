"""Measures the house: its size by room, and what a reader has to follow.

  python docs/house.py            prints the table of docs/design.md
  python docs/house.py --write    writes it there, and lowers the entries of docs/budget.toml

Lines are those of Python files, comments and blank lines included; words are those of Markdown
pages. Entries of the budget never rise: a room that needs lines lowers another's entry by hand, and
raises its own by as many.

The functions of a step are the project's functions and methods that Python enters from a
configuration to the traced training step of ``configs/jem_digits.py:smoke``; functions inside
functions are left out. The configuration's walk is the order of files whose functions take it as an
argument on that way: a stay begins where the file changes, and a return is a stay in a file seen
before.
"""

import argparse
import importlib
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUDGET, DESIGN = ROOT / "docs" / "budget.toml", ROOT / "docs" / "design.md"
BEGIN, END = "<!-- written by docs/house.py -->\n", "<!-- end -->\n"
LIBRARY = (
    "data", "evaluate", "evidence", "latent", "learning", "losses", "metrics", "networks", "optim",
    "samplers", "training",
)  # fmt: skip


def count(pattern: str, unit: Callable[[str], int], leave_out: str = "") -> int:
    """Returns the units of all files below the root that match."""
    paths = [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)]
    return sum(unit((ROOT / p).read_text()) for p in paths if not (leave_out and leave_out in p))


def lines(text: str) -> int:
    """Returns the number of lines as ``wc -l`` counts them."""
    return text.count("\n")


def words(text: str) -> int:
    """Returns the number of words as ``wc -w`` counts them."""
    return len(text.split())


def measure_sizes() -> dict[str, int]:
    """Returns the size of every room: lines of Python, words of pages, files of recipes."""
    rooms = {f"ebmjax/{room}": count(f"ebmjax/{room}/**/*.py", lines) for room in LIBRARY}
    rooms["ebmjax/*.py"] = count("ebmjax/*.py", lines)
    recipes = sorted(one for one in (ROOT / "ebmjax/recipes").iterdir() if any(one.rglob("*.py")))
    for one in recipes:
        if one.is_dir() and one.name != "__pycache__":
            name = str(one.relative_to(ROOT))
            rooms[name] = count(f"{name}/**/*.py", lines)
    rooms["ebmjax/recipes/*.py"] = count("ebmjax/recipes/*.py", lines)
    rooms |= {room: count(f"{room}/**/*.py", lines) for room in ("experiments", "benchmarks")}
    rooms["tests"] = count("tests/**/*.py", lines)
    rooms["files of recipes"] = count("ebmjax/recipes/**/*.py", lambda text: 1)
    rooms["words of docs without results"] = count("docs/**/*.md", words, "docs/results/")
    rooms["words of docs/results"] = count("docs/results/**/*.md", words)
    rooms["words of CHANGELOG.md"] = count("CHANGELOG.md", words)
    return rooms


def sum_sizes(sizes: dict[str, int]) -> dict[str, str]:
    """Returns the rows of the table that need no import of the project."""
    library = sum(number for name, number in sizes.items() if is_library(name))
    recipes = sum(number for name, number in sizes.items() if name.startswith("ebmjax/recipes"))
    rest = {name: sizes[name] for name in ("experiments", "benchmarks")}
    pages = [number for name, number in sizes.items() if name.startswith("words")]
    return {
        "ebmjax without recipes": f"{thousands(library)} lines",
        "recipes": f"{thousands(recipes)} lines in {sizes['files of recipes']} files",
        "experiments; benchmarks": "; ".join(map(thousands, rest.values())),
        "source in all": f"{thousands(library + recipes + sum(rest.values()))} lines",
        "tests": f"{thousands(sizes['tests'])} lines",
        "docs without results; docs/results; CHANGELOG": "; ".join(map(thousands, pages))
        + " words",
    }


def thousands(number: int) -> str:
    """Returns a number in thousands: 28.4k."""
    return f"{number / 1000:.1f}k"


def is_library(name: str) -> bool:
    """Returns whether a room's lines are the library's."""
    return name.startswith("ebmjax/") and not name.startswith("ebmjax/recipes")


def public_names() -> int:
    """Returns the number of public names of the library: what rooms export, and modules define."""
    found = 0
    for room in LIBRARY:
        module = importlib.import_module(f"ebmjax.{room}")
        names = getattr(module, "__all__", None) or dir(module)
        found += sum(
            not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)
            for name in names
        )
    for module in ("densities", "types"):
        text = (ROOT / "ebmjax" / f"{module}.py").read_text()
        defined = r"^(?:def |class )?([A-Za-z]\w*)(?=[(:]| = |\[)"
        found += len(re.findall(defined, text, re.MULTILINE))
    return found


def frames_entered(run: Callable[[], Any]) -> list[tuple[str, str, bool]]:
    """Returns (file, function, takes a configuration) of this project's frames that ``run`` enters.

    Left out are the code of modules and functions that are defined inside others.
    """
    entered: list[tuple[str, str, bool]] = []
    own = tuple(f"{ROOT / room}{os.sep}" for room in ("ebmjax", "experiments"))

    def note(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(own) and "<" not in code.co_qualname:
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            is_taken = any(type(frame.f_locals[name]).__name__ == "ConfigDict" for name in names)
            entered.append((code.co_filename, code.co_qualname, is_taken))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return entered


def trace_a_joint_step() -> None:
    """Traces a step from the configuration on, as run.py does before it writes anything."""
    from ebmjax.recipes.config import command_line
    from ebmjax.recipes.run.run import Run

    config = command_line.read(str(ROOT / "experiments/configs/jem_digits.py:smoke"), [])
    with tempfile.TemporaryDirectory() as folder:
        run = Run(config, folder)
        run.build(is_training=True)


def measure_ways() -> dict[str, str]:
    """Returns the rows of the table that follow a configuration through the code."""
    from ebmjax.recipes.config import command_line, families
    from ebmjax.recipes.config.errors import flatten

    printed = command_line.read(str(ROOT / "experiments/configs/jem_digits.py"), [])
    known = families.FAMILIES.items()  # two families may be one package
    total = len({(place, name) for one, place in known for name in families.all_fields(one)})
    trace_a_joint_step()  # imports are no part of a step
    entered = frames_entered(trace_a_joint_step)
    functions, files = {entry[:2] for entry in entered}, {entry[0] for entry in entered}
    stays = [file for file, _ in groupby(file for file, _, is_taken in entered if is_taken)]
    returns = len(stays) - len(set(stays))
    return {
        "functions and files to a traced JEM step": f"{len(functions)}, {len(files)}",
        "a configuration's walk": f"{len(stays)} stays, {returns} returns",
        "fields": f"{total} over the models, {len(flatten(printed.to_dict()))} in `jem_digits`",
        "public names of the library": str(public_names()),
    }


def table() -> str:
    """Returns the table of docs/design.md."""
    rows = sum_sizes(measure_sizes()) | measure_ways()
    return "| what | now |\n|---|---|\n" + "".join(f"| {a} | {b} |\n" for a, b in rows.items())


def over_budget(sizes: dict[str, int]) -> dict[str, tuple[int, int | None]]:
    """Returns rooms that are larger than their entry of the budget, or have none."""
    budget = tomllib.loads(BUDGET.read_text())
    return {
        name: (size, budget.get(name))
        for name, size in sizes.items()
        if size > budget.get(name, -1)
    }


def lower(sizes: dict[str, int]) -> str:
    """Returns the text of the budget with no entry above today's size."""
    old = tomllib.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    entries = {name: min(size, old.get(name, size)) for name, size in sizes.items()}
    head = "# Lines, files and words by room: tests/test_house.py holds the rooms to them.\n"
    return head + "".join(f'"{name}" = {size}\n' for name, size in entries.items())


def main() -> None:
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write design.md and budget.toml")
    found = table()
    if not parser.parse_args().write:
        print(found)
        return
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    DESIGN.write_text(between.sub(lambda _: BEGIN + found + END, DESIGN.read_text()))
    BUDGET.write_text(lower(measure_sizes()))


if __name__ == "__main__":
    main()
