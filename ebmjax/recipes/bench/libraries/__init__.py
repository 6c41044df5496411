"""Libraries that sit the exam: one file each, which imports its library when it runs.

A file has ``PACKAGE``, the module that it imports, ``TASKS``, its methods by task with a word on
each, and a function for each task. The function gets a target, a method and more arguments:

- sample: ``starts, step_size, num_gradients, num_kept, seed``. Starts (seeds, chains, d) give
  draws (seeds, chains, num_kept, d), and the number of gradients of a chain.
- logz: ``num_seeds``. Returns values (seeds,), ends (seeds, 2) or None, and gradients of a seed.
- learn: ``data, points``, which are (seeds, n, d) and (p, d). Returns log densities (seeds, p), up
  to a constant.

The word on a sampler is "exact" if it keeps the target's law, "step" if only small steps do, and
"particles" if the chains of a seed move together.
"""

import importlib
import subprocess
from pathlib import Path
from typing import Any

from ebmjax._user_function import definitions


def load(library: str) -> Any:
    """Returns the adapter of a library of ours, or in a user's FILE.py."""
    if library.endswith(".py"):
        return definitions(Path(library).expanduser().resolve())
    return importlib.import_module(f"{__name__}.{library}")


def find_python(package: str, *pythons: str | None) -> tuple[str, str] | None:
    """Returns the first Python that has a package, and the package's version there."""
    code = f"""
import importlib.util, importlib.metadata as found
assert importlib.util.find_spec({package!r})
names = found.packages_distributions().get({package!r}, [{package!r}])
print(next((one.version for one in found.distributions(name=names[0])), "of a checkout"))
"""
    for python in filter(None, pythons):
        done = subprocess.run([python, "-c", code], capture_output=True, text=True)
        if done.returncode == 0:
            return python, done.stdout.strip()
    return None
