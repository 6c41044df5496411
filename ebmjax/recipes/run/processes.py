"""Joins the processes that share a run, and ends them together."""

import contextlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from ebmjax.recipes.config.errors import FAILED, stop

NAMES = ("coordinator_address", "num_processes", "process_id")

DEVICE_FLAG = "xla_force_host_platform_device_count"

SECONDS_OF_SILENCE = 30
"""Time without a sign of life after which a process counts as dead; JAX then ends the others."""

SECONDS_TO_LEAVE = 5
"""Time in which all processes of a run that fails on each of them say so and end."""


def read_request(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    distributed: bool,
) -> dict[str, Any] | None:
    """Returns arguments of ``jax.distributed.initialize``; None for a single process.

    Args:
      coordinator_address, num_processes, process_id: as the command line has them, or None.
      distributed: whether JAX finds the three by itself, from its cluster.

    Raises:
      ValueError: if one is missing or out of range.
    """
    given = coordinator_address, num_processes, process_id
    if distributed or given == (None, None, None):
        return {} if distributed else None
    if (
        ":" not in (coordinator_address or "")
        or num_processes is None
        or process_id not in range(num_processes)
    ):
        raise ValueError(
            "several processes need --coordinator_address=HOST:PORT of process 0, --num_processes "
            "and --process_id, from 0 on and below it, or --distributed alone on a cluster; got "
            f"{', '.join(f'--{name}={one}' for name, one in zip(NAMES, given, strict=True))}."
        )
    # Each process takes all devices that it sees, also under Slurm.
    return {**dict(zip(NAMES, given, strict=True)), "cluster_detection_method": "deactivate"}


def cpu_devices(is_shared: bool = False) -> dict[str, str]:
    """Returns the variable that makes JAX see a device for each processor of a CPU.

    One device keeps one to two processors busy, however many there are. The variable itself or
    XLA_FLAGS may say another number. Of the processes that share a run, each has one device.
    """
    is_set = "JAX_NUM_CPU_DEVICES" in os.environ or DEVICE_FLAG in os.environ.get("XLA_FLAGS", "")
    return {} if is_shared or is_set else {"JAX_NUM_CPU_DEVICES": str(num_processors())}


def num_processors() -> int:
    """Returns how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
