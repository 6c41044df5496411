"""Versions of the packages that decide the numbers of a run."""

import platform
from importlib import metadata

PACKAGES = ("ebmjax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def versions() -> dict[str, str | None]:
    """Returns versions of Python and of the packages that decide the numbers.

    A package that is not installed has None, as a checkout on PYTHONPATH; ``revision`` of a run
    then names the code.
    """
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
