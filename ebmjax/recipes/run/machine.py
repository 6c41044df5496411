"""Sets JAX up for a run: compiler flags, devices and compiled programs.

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


def variables(is_quick: bool = False) -> dict[str, str]:
    """Returns the variables of the environment that JAX is to read when it starts.

    XLA_FLAGS gets ``QUICK`` for a short run, and ``LEVEL`` where JAX finds nothing but CPUs, unless
    it sets the level of optimisation already. A CPU is a device for each processor, because one
    device keeps one to two processors busy, unless its number of devices is set already.
    """
    given, found = os.environ.get("XLA_FLAGS", ""), {}
    plugins = metadata.entry_points(group="jax_plugins")
    has_only_cpus = not plugins and not any(map(util.find_spec, ("jax_plugins", "libtpu")))
    if platforms := os.environ.get("JAX_PLATFORMS"):
        has_only_cpus = platforms == "cpu"
    if "xla_backend_optimization_level" not in given:
        flags = QUICK if is_quick else (LEVEL,) if has_only_cpus else ()
        found["XLA_FLAGS"] = " ".join([given, *flags]).strip()
    is_set = "JAX_NUM_CPU_DEVICES" in os.environ or "host_platform_device_count" in given
    if not is_set:
        found["JAX_NUM_CPU_DEVICES"] = str(num_processors())
    return found


def num_processors() -> int:
    """Returns how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that a second run starts at once."""
    import jax  # imported late: ``variables`` come before it

    if not jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path.home() / ".cache" / "ebmjax" / "xla"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
