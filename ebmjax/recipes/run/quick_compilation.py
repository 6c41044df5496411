"""Makes XLA compile quickly, for short runs on a CPU and for tests.

Most of the time of a short run goes into compiling programs that run a few times.
"""

from importlib import metadata

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
