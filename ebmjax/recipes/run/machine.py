"""Sets JAX up for a run: compiler flags, devices, compiled programs, and the processes it shares.

Most of the time of a short run on a CPU goes into compiling programs that run a few times.
"""

import contextlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any

from ebmjax.recipes.config.errors import FAILED, stop

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

NAMES = ("coordinator_address", "num_processes", "process_id")

SECONDS_OF_SILENCE = 30
"""Time without a sign of life after which a process counts as dead; JAX then ends the others."""

SECONDS_TO_LEAVE = 5
"""Time in which all processes of a run that fails on each of them say so and end."""


def variables(is_quick: bool = False, is_shared: bool = False) -> dict[str, str]:
    """Returns the variables of the environment that JAX is to read when it starts.

    XLA_FLAGS gets ``QUICK`` for a short run, and ``LEVEL`` where JAX finds nothing but CPUs, unless
    it sets the level of optimisation already. A CPU is a device for each processor, because one
    device keeps one to two processors busy, unless its number of devices is set already. Of the
    processes that share a run, each has one device.
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
    if not (is_shared or is_set):
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


def read_request(options: Any) -> dict[str, Any] | None:
    """Returns arguments of ``jax.distributed.initialize`` from options; None for one process."""
    given = {name: getattr(options, name) for name in NAMES}
    address, number, mine = given.values()
    if options.distributed:
        return {}  # JAX asks the cluster
    if set(given.values()) == {None}:
        return None
    if ":" not in (address or "") or number is None or mine not in range(number):
        stop(
            "several processes need --coordinator_address=HOST:PORT of process 0, --num_processes "
            "and --process_id, from 0 on and below it, or --distributed alone on a cluster; got "
            f"{', '.join(f'--{name}={one}' for name, one in given.items())}."
        )
    # Each process takes all devices that it sees, also under Slurm.
    return {**given, "cluster_detection_method": "deactivate"}


@contextlib.contextmanager
def join_processes(asked: dict[str, Any] | None) -> Iterator[None]:
    """Joins the other processes and, whatever happens inside, ends with an exit code.

    Only process 0 prints and warns. A process that fails prints why and ends at once, which ends
    the others.
    """
    if asked is None:
        yield
        return
    import jax

    where = asked.get("coordinator_address", "the address that the cluster names")
    print(f"waiting for the other processes at {where}, 5 minutes at most", file=sys.stderr)
    jax.config.update("jax_enable_preemption_service", False)  # ``fit`` agrees on signals itself
    try:
        jax.distributed.initialize(**asked, heartbeat_timeout_seconds=SECONDS_OF_SILENCE)
    except (ValueError, RuntimeError) as error:
        stop(f"the processes of this run did not find each other: {error}.")
    if jax.process_index():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the end)
        logging.disable(logging.WARNING)
    try:
        yield
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else FAILED
        if code == 0:
            raise
    except BaseException:
        traceback.print_exc()
        code = FAILED
    _leave(code)


def _leave(code: int) -> None:
    """Ends this process, without waiting for others that do not end."""
    from ebmjax.training import is_first, meet

    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(Exception):  # process 0 leaves last: JAX aborts whom it leaves behind
        meet("leave", SECONDS_TO_LEAVE)
        time.sleep(SECONDS_TO_LEAVE / 2 if is_first() else 0)
    os._exit(code)
