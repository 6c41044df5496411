"""Compiles quickly for short runs, and keeps compiled programs for later ones.

Most of the time of a short run on a CPU goes into compiling programs that run a few times.
"""

from importlib import metadata
from pathlib import Path

QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
    # Two thirds of the time with XLA's older emitters. Later versions stop at an unknown flag.
    *["--xla_cpu_use_fusion_emitters=false"] * metadata.version("jaxlib").startswith("0.10."),
)


def quick_flags(given: str) -> str:
    """Returns XLA_FLAGS with which programs compile sooner and run slower.

    Results differ in their rounding. JAX reads the variable when it starts.

    Args:
      given: XLA_FLAGS as it is. If it sets the level of optimisation, it is returned unchanged.
    """
    if "xla_backend_optimization_level" in given:
        return given
    return " ".join([given, *QUICK]).strip()


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second run starts at once."""
    import jax  # imported late: ``quick_flags`` comes before it

    if not jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path.home() / ".cache" / "ebmjax" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
