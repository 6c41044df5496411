"""Runs adapters: here, or in another Python that has the library. Needs NumPy alone."""

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._user_function import definitions
from ebmjax.recipes.bench.targets import find

ROOT = Path(__file__).parents[3]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Unless the environment says more: PyTorch's threads wait busily for the small work of chains."""


def load(library: str) -> Any:
    """Returns the adapter of a library of ours, or in a user's FILE.py."""
    if library.endswith(".py"):
        return definitions(Path(library).expanduser().resolve())
    return importlib.import_module(f"ebmjax.recipes.bench.libraries.{library}")


def version(python: str | None, package: str) -> str | None:
    """Returns the version of a package in a Python, this one for None; None if it is not there."""
    code = f"""
import importlib.util, importlib.metadata as found
assert importlib.util.find_spec({package!r})
try:
    print(found.version(found.packages_distributions().get({package!r}, [{package!r}])[0]))
except found.PackageNotFoundError:
    print("of a checkout")
"""
    done = subprocess.run([python or sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or None


def runner(library: str, python: str | None) -> Callable[..., Any]:
    """Returns ``run(task, target's name, *arguments)`` of an adapter, here or in ``python``."""
    if python is None:
        adapter = load(library)
        return lambda task, name, *given: getattr(adapter, task)(find(name), *given)

    def run(task: str, name: str, *given: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "arrays.npz"
            np.savez(file, *given)
            command = [python, "-m", "ebmjax.recipes.bench.other_python"]
            paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
            done = subprocess.run(
                [*command, library, task, name, str(file)],
                env={**ONE_THREAD, **os.environ, "PYTHONPATH": paths},
                capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError((done.stderr.strip() or "it ended").splitlines()[-1])
            with np.load(file) as found:
                results = [_plain(found[one]) for one in found]
                return results if len(results) > 1 else results[0]

    return run


def _plain(array: np.ndarray) -> Any:
    """Returns a number or a text as such, and nothing as None."""
    return (array if array.ndim else array.item()) if array.size else None


def main() -> None:
    """Does one call: LIBRARY TASK TARGET FILE, whose arrays it replaces by those of the result."""
    library, task, name, file = sys.argv[1:]
    with np.load(file) as given:
        found = runner(library, None)(task, name, *(_plain(given[one]) for one in given))
    found = found if isinstance(found, tuple | list) else [found]
    np.savez(file, *([] if one is None else one for one in found))


if __name__ == "__main__":
    main()
