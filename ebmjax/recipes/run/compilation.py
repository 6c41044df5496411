"""Compiles quickly for short runs, and keeps compiled programs for later ones.

Most of the time of a short run on a CPU goes into compiling programs that run a few times.
"""

import os
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path

QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
    # Two thirds of the time with XLA's older emitters. Later versions stop at an unknown flag.
    *["--xla_cpu_use_fusion_emitters=false"] * metadata.version("jaxlib").startswith("0.10."),
)


LEVEL = "--xla_backend_optimization_level=1"
"""Programs of a CPU compile in 0.55 to 0.82 of the time, and are as fast (docs/results)."""


def quick_flags(given: str) -> str:
    """Returns XLA_FLAGS with which programs compile sooner and run slower.

    Results differ in their rounding. JAX reads the variable when it starts. If ``given``,
    XLA_FLAGS as it is, sets the level of optimisation, it is returned unchanged.
    """
    return _with(given, *QUICK)


def cpu_flags(environ: Mapping[str, str] = os.environ) -> str:
    """Returns XLA_FLAGS for a long run: on a CPU with ``LEVEL``, elsewhere as it is."""
    given = environ.get("XLA_FLAGS", "")
    return _with(given, LEVEL) if _has_only_cpus(environ) else given


def _with(given: str, *flags: str) -> str:
    is_set = "xla_backend_optimization_level" in given
    return given if is_set else " ".join([given, *flags]).strip()


def _has_only_cpus(environ: Mapping[str, str]) -> bool:
    """Returns whether JAX will find nothing else, before it is loaded."""
    if platforms := environ.get("JAX_PLATFORMS"):
        return platforms == "cpu"
    plugins = metadata.entry_points(group="jax_plugins")
    return not plugins and not any(map(util.find_spec, ("jax_plugins", "libtpu")))


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second run starts at once."""
    import jax  # imported late: ``quick_flags`` comes before it

    if not jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path.home() / ".cache" / "ebmjax" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
