"""Compiles quickly for short runs, and keeps compiled programs for later ones.

Most of the time of a short run on a CPU goes into compiling programs that run a few times.
"""

import os
from importlib import metadata, util
from pathlib import Path

QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
    # Two thirds of the time with XLA's older emitters. Later versions stop at an unknown flag.
    *["--xla_cpu_use_fusion_emitters=false"] * metadata.version("jaxlib").startswith("0.10."),
)
"""Flags with which programs compile sooner and run slower. Results differ in their rounding."""

LEVEL = "--xla_backend_optimization_level=1"
"""Programs of a CPU compile in 0.55 to 0.82 of the time, and are as fast (docs/results)."""


def xla_flags(is_quick: bool = False) -> dict[str, str]:
    """Returns the variable XLA_FLAGS, which JAX reads when it starts.

    It gets ``QUICK`` for a short run, and ``LEVEL`` where JAX finds nothing but CPUs, unless it
    sets the level of optimisation already.
    """
    given = os.environ.get("XLA_FLAGS", "")
    plugins = metadata.entry_points(group="jax_plugins")
    has_only_cpus = not plugins and not any(map(util.find_spec, ("jax_plugins", "libtpu")))
    if platforms := os.environ.get("JAX_PLATFORMS"):
        has_only_cpus = platforms == "cpu"
    flags = QUICK if is_quick else (LEVEL,) if has_only_cpus else ()
    is_set = "xla_backend_optimization_level" in given
    return {"XLA_FLAGS": given if is_set else " ".join([given, *flags]).strip()}


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second run starts at once."""
    import jax  # imported late: ``xla_flags`` comes before it

    if not jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path.home() / ".cache" / "ebmjax" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
