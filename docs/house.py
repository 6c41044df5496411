"""Measures the goals of docs/design.md: the size of the house, and what a mistake costs.

  python docs/house.py

Lines are those of Python files, comments and blank lines included. An arrow is an import from one
room of ``ebmjax.recipes`` to another. A field is set if its dotted name stands in a configuration,
a study, a test or a page; the page of all fields does not count. The functions of a step are the
project's functions and methods that Python enters from a configuration to the traced training step
of ``configs/jem_digits.py:smoke``; functions inside functions are left out. The configuration's
walk is the order of files whose functions take it as an argument on that way: a stay begins where
the file changes, and a return is a stay in a file seen before. A refusal is the time of a whole
process, from its start to exit code 2; of several the slowest is printed. Other work on the machine
must have stopped.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import ebmjax.recipes.models.joint.setup  # noqa: F401  # importing it is no part of a step
from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.run.run import Run

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "ebmjax" / "recipes"
ROOMS = ("ebmjax", "ebmjax/recipes", "experiments", "benchmarks", "tests")
MISTAKES = (
    ("jem_digits", "sampler.name=nope"),
    ("jem_digits", "sampler.num_steps=0"),
    ("igebm_digits", "optimizer.learning_rate=-1"),
    ("thermo_digits", "loss.exponent=-1"),
    ("toy_beta", "train.batch_size=0"),
)


def read_lines(*rooms: str, suffix: str = ".py") -> dict[Path, list[str]]:
    """Returns the lines of every file of the rooms."""
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob(f"*{suffix}"))]
    return {path: path.read_text().splitlines() for path in paths}


def measure_sizes() -> dict[str, str]:
    """Returns files and lines by room, long files, and functions without a docstring."""
    texts = {room: read_lines(room) for room in ROOMS}
    lines = {room: sum(map(len, of_room.values())) for room, of_room in texts.items()}
    found = {f"{room}/": f"{lines[room]} lines, {len(texts[room])} files" for room in ROOMS}
    found["ebmjax/ without recipes/"] = f"{lines['ebmjax'] - lines['ebmjax/recipes']} lines"
    found["ebmjax/ and experiments/"] = f"{lines['ebmjax'] + lines['experiments']} lines"
    folders = Counter(path.parent for path in texts["ebmjax/recipes"])
    folder, number = folders.most_common(1)[0]
    found["fullest folder of recipes/"] = f"{folder.relative_to(ROOT)}, {number} files"
    long = [path for path, text in read_lines(*ROOMS[:4]).items() if len(text) > 300]
    found["files over 300 lines"] = list_names({str(path.relative_to(ROOT)) for path in long})
    bare = {
        f"{path.stem}.{node.name}"
        for path in texts["ebmjax"]
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        if not ast.get_docstring(node) and not node.name.startswith("_")
    }
    return found | {"public functions without a docstring": list_names(bare)}


def list_names(names: set[str]) -> str:
    """Returns how many there are, and which."""
    return f"{len(names)} {' '.join(sorted(names))}".rstrip()


def find_arrows() -> set[tuple[str, str]]:
    """Returns pairs (room, imported room) of ``ebmjax.recipes``."""
    rooms = {path.name for path in RECIPES.iterdir() if (path / "__init__.py").exists()}
    pairs = set()
    for path in RECIPES.rglob("*/*.py"):
        room = path.relative_to(RECIPES).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                parts = [(start + alias.name).split(".") for alias in node.names]
                pairs |= {(room, p[2]) for p in parts if p[:2] == ["ebmjax", "recipes"] and p[2:]}
    return {(room, other) for room, other in pairs if other in rooms - {room}}


def count_fields() -> tuple[int, int, int]:
    """Returns numbers of configuration fields: their names, all families' sum, and names unset.

    Fields of samplers, which families share, count once in the sum.
    """
    declared = [families.all_fields(family) for family in families.FAMILIES]
    own = sum(not one.part for fields in declared for one in fields.values())
    shared = {name for fields in declared for name, one in fields.items() if one.part}
    pages = read_lines("docs", suffix=".md")
    pages.pop(ROOT / "docs" / "configuration.md", None)
    texts = [*read_lines("experiments", "tests").values(), *pages.values()]
    words = {word for text in texts for line in text for word in re.findall(r"[\w.]+", line)}
    words = {word.removeprefix("config.").strip(".") for word in words}
    different = set[str]().union(*declared)
    return len(different), own + len(shared), len(different - words)


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
    config = command_line.read(str(ROOT / "experiments/configs/jem_digits.py:smoke"), [])
    with tempfile.TemporaryDirectory() as folder:
        run = Run(config, folder)
        run.build()
        run.trace()


def refusal_seconds(config: str, mistake: str) -> float:
    """Returns the seconds until the command has refused ``--config.<mistake>``.

    Raises:
      RuntimeError: if it does not exit with code 2.
    """
    arguments = "run", f"--config=configs/{config}.py", f"--config.{mistake}"
    command = [sys.executable, "-m", "ebmjax.recipes", *arguments]
    folder, environment = ROOT / "experiments", os.environ | {"PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 2:
        raise RuntimeError(f"{config} {mistake}: exit code {done.returncode}: {done.stderr}")
    return time.perf_counter() - began


def main() -> None:
    """Prints the numbers."""
    found, pairs = measure_sizes(), find_arrows()
    rooms = {room for pair in pairs for room in pair}
    found["rooms and arrows of recipes/"] = f"{len(rooms)} rooms, {len(pairs)} arrows"
    names, total, unset = count_fields()
    found["configuration fields"] = f"{names} names, {total} over the families, {unset} never set"
    entered = frames_entered(trace_a_joint_step)
    functions, files = {entry[:2] for entry in entered}, {entry[0] for entry in entered}
    found["to a traced JEM step"] = f"{len(functions)} functions in {len(files)} files"
    stays = [file for file, _ in groupby(file for file, _, is_taken in entered if is_taken)]
    returns = len(stays) - len(set(stays))
    found["a configuration's walk"] = f"{len(stays)} stays, {returns} returns"
    seconds = {mistake: refusal_seconds(*mistake) for mistake in MISTAKES}
    slowest = max(seconds, key=lambda mistake: seconds[mistake])
    found["refusal"] = f"{seconds[slowest]:.1f} s at most ({slowest[0]}, {slowest[1]})"
    for name, text in found.items():
        print(f"{name:40}{text}")


if __name__ == "__main__":
    main()
