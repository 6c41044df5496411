"""Measures the goals of docs/design.md: the size of the house, and what a mistake costs.

  python benchmarks/house.py

Prints one line a goal. Lines are those of Python files, comments and blank lines included. An
arrow is an import from one room of ``ebmjax.recipes`` to another. The functions of a step are the
project's functions and methods that Python enters from a configuration to the traced training step
of ``configs/jem_digits.py:smoke``; functions inside functions are left out. A refusal is the time
of a whole process, from its start to exit code 2; of several the slowest is printed. Other work on
the machine must have stopped.
"""

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ebmjax.recipes.joint.setup  # noqa: F401  # what it calls while imported is no part of a step
from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.core import command_line, explain, families

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "ebmjax" / "recipes"
MISTAKES = (
    ("jem_digits", "sampler.name=nope"),
    ("jem_digits", "sampler.num_steps=0"),
    ("igebm_digits", "optimizer.learning_rate=-1"),
    ("thermo_digits", "loss.exponent=-1"),
    ("toy_beta", "train.batch_size=0"),
)


def sizes(*rooms: str) -> tuple[int, int]:
    """Number of Python files and of their lines."""
    texts = [path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py")]
    return len(texts), sum(text.count("\n") for text in texts)


def arrows() -> set[tuple[str, str]]:
    """Pairs (room, imported room) of ``ebmjax.recipes``."""
    rooms = {path.name for path in RECIPES.iterdir() if (path / "__init__.py").exists()}
    return {
        (path.relative_to(RECIPES).parts[0], other)
        for path in RECIPES.rglob("*/*.py")
        for other in rooms & {name.split(".")[2] for name in _recipes_imported(path)}
        if other != path.relative_to(RECIPES).parts[0]
    }


def _recipes_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("ebmjax.recipes."))


def fields() -> tuple[int, int]:
    """Number of different names of configuration fields, and their sum over the families."""
    names = [set(families.fields_of(family)) for family in families.FAMILIES]
    return len(set[str]().union(*names)), sum(map(len, names))


def functions_entered(run: Callable[[], Any]) -> set[tuple[str, str]]:
    """Pairs (file, function) of this project that ``run`` enters.

    Left out are the code of modules and functions that are defined inside others.
    """
    entered: set[tuple[str, str]] = set()
    own = tuple(f"{ROOT / room}{os.sep}" for room in ("ebmjax", "experiments"))

    def note(frame: Any, event: str, argument: Any) -> None:
        del argument
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(own) and "<" not in code.co_qualname:
            entered.add((code.co_filename, code.co_qualname))

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
        explain.build_and_trace(config, Path(folder))


def refusal_seconds(config: str, mistake: str) -> float:
    """Seconds until the command has refused ``--config.<mistake>``.

    Raises:
      RuntimeError: if it does not exit with code 2.
    """
    began = time.perf_counter()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ebmjax.recipes", "run"),
            *(f"--config=configs/{config}.py", f"--config.{mistake}"),
        ],
        cwd=ROOT / "experiments",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 2:
        raise RuntimeError(f"{config} {mistake}: exit code {done.returncode}: {done.stderr}")
    return time.perf_counter() - began


def main() -> None:
    """Prints the table."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(f"lines outside tests: {sizes('ebmjax', 'experiments')[1]}")
    print("experiments: {} files, {} lines".format(*sizes("experiments")))
    found = arrows()
    print(f"recipes: {len({room for arrow in found for room in arrow})} rooms, {len(found)} arrows")
    print("configuration fields: {} names, {} over the families".format(*fields()))
    entered = functions_entered(trace_a_joint_step)
    files = {file for file, _ in entered}
    print(f"to a traced JEM step: {len(entered)} functions in {len(files)} files")
    seconds = {mistake: refusal_seconds(*mistake) for mistake in MISTAKES}
    slowest = max(seconds, key=lambda mistake: seconds[mistake])
    print(f"refusal: {seconds[slowest]:.1f} s at most ({slowest[0]}, {slowest[1]})")


if __name__ == "__main__":
    quietly(main)
