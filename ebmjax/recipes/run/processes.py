"""Joins the processes that share a run, and ends them together."""

import contextlib
import ctypes
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from ebmjax.recipes.config.errors import FAILED, stop

NAMES = ("coordinator_address", "num_processes", "process_id")

DEVICE_FLAG = "xla_force_host_platform_device_count"

SECONDS_OF_SILENCE = 30
"""Time without a sign of life after which a process counts as dead; JAX then ends the others."""

SECONDS_TO_LEAVE = 5
"""Time in which all processes of a run that fails on each of them say so and end."""

_handlers: list[Any] = []  # which C calls, so that they must not be collected


def read_request(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    distributed: bool,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any] | None:
    """Returns arguments of ``jax.distributed.initialize``; None for a single process.

    Args:
      coordinator_address, num_processes, process_id: as the command line has them, or None.
      distributed: whether JAX finds the three by itself, from its cluster.
      environ: variables JAX_COORDINATOR_ADDRESS, ... for those that are None.

    Raises:
      ValueError: if one is missing, out of range, or given although JAX is to find it.
    """
    given: dict[str, Any] = dict(
        zip(NAMES, (coordinator_address, num_processes, process_id), strict=True)
    )
    if distributed:
        if any(value is not None for value in given.values()):
            raise ValueError("--distributed lets the cluster tell the processes: give it alone.")
        return {}
    for name in NAMES:
        if given[name] is None:
            given[name] = environ.get(f"JAX_{name.upper()}")
    missing = [name for name in NAMES if given[name] is None]
    if len(missing) == len(NAMES):
        return None
    if missing:
        raise ValueError(
            f"--{missing[0]} is missing: several processes need --coordinator_address, "
            "--num_processes and --process_id (or the variables JAX_COORDINATOR_ADDRESS, "
            "JAX_NUM_PROCESSES and JAX_PROCESS_ID), or --distributed alone on a cluster."
        )
    address = str(given["coordinator_address"])
    if not re.fullmatch(r".+:\d{1,5}", address):
        raise ValueError(
            f"--coordinator_address must be HOST:PORT of process 0, as 10.0.0.1:1234, got "
            f"{address!r}."
        )
    total, number = str(given["num_processes"]), str(given["process_id"])
    if not (total.isdecimal() and number.isdecimal() and int(number) < int(total)):
        raise ValueError(
            f"--process_id must be an integer from 0 on and below --num_processes, got "
            f"--process_id={number} and --num_processes={total}."
        )
    # Each process takes all devices that it sees, also under Slurm.
    found = dict(zip(NAMES, (address, int(total), int(number)), strict=True))
    return {**found, "cluster_detection_method": "deactivate"}


def cpu_devices(
    asked: int | None,
    request: dict[str, Any] | None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Returns the variable that makes JAX see a device for each processor of a CPU.

    One device keeps one to two processors busy, however many there are.

    Args:
      asked: number of devices, or None.
      request: of ``read_request``. Of several processes, each has one device unless asked.
      environ: variables JAX_NUM_CPU_DEVICES and XLA_FLAGS, which win if they set the number.

    Raises:
      ValueError: if XLA_FLAGS sets another number than the one that is asked for.
    """
    flag = re.search(rf"{DEVICE_FLAG}=(\d+)", environ.get("XLA_FLAGS", ""))
    if flag and asked not in (None, int(flag[1])):
        raise ValueError(
            f"--num_cpu_devices={asked}, but XLA_FLAGS has {flag[0]}. Leave out either."
        )
    if flag or (asked is None and (request is not None or "JAX_NUM_CPU_DEVICES" in environ)):
        return {}
    return {"JAX_NUM_CPU_DEVICES": str(asked or num_processors())}


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
    # JAX reads this on import; 1 is its default, also inherited. Its threads would print a dump.
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "4"
    import jax

    where = asked.get("coordinator_address", "the address that the cluster names")
    print(f"waiting for the other processes at {where}, 5 minutes at most", file=sys.stderr)
    jax.config.update("jax_enable_preemption_service", False)  # ``fit`` agrees on signals itself
    try:
        jax.distributed.initialize(**asked, heartbeat_timeout_seconds=SECONDS_OF_SILENCE)
    except (ValueError, RuntimeError) as error:
        stop(
            f"the processes of this run did not find each other ({error}). --distributed needs "
            "Slurm, a Cloud TPU or another cluster that JAX knows. Elsewhere set "
            "--coordinator_address=HOST:PORT on all, a free port of the machine of process 0."
        )
    if jax.process_index():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the end)
        logging.disable(logging.WARNING)
    me = f"process {jax.process_index()} of {jax.process_count()}"
    _speak_before_an_abort(me)
    try:
        yield
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else FAILED
        if code == 0:
            raise
    except BaseException as error:
        # Gloo's are a ValueError.
        if isinstance(error, jax.errors.JaxRuntimeError) or "Gloo" in str(error):
            _say_end(me, str(error).strip().splitlines()[0])
        else:
            traceback.print_exc()
        code = FAILED
    _leave(code)


def _say_end(me: str, reason: str) -> None:
    text = (
        f"error: {me} cannot go on: {reason}\nIf another process has ended, its own output says "
        "why. What was saved before is safe: the same commands on all machines continue the run.\n"
    )
    os.write(2, text.encode())


def _speak_before_an_abort(me: str) -> None:
    """Lets JAX's threads, which abort a process where another has ended, say so and exit.

    A handler of Python's own would run too late: an abort ends the process when it returns.
    """

    def end(signum: int) -> None:
        del signum
        _say_end(
            me,
            "JAX ended it, most likely because another process has ended or was silent for "
            f"{SECONDS_OF_SILENCE} s (TF_CPP_MIN_LOG_LEVEL=0 shows its report).",
        )
        os._exit(FAILED)

    _handlers.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(end))
    with contextlib.suppress(OSError, AttributeError, TypeError):  # systems without a C library
        ctypes.CDLL(None).signal(int(signal.SIGABRT), _handlers[-1])


def _leave(code: int) -> None:
    """Ends this process, without waiting for others that do not end."""
    from ebmjax.training import meet

    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(Exception):  # else process 0 would end the others before they speak
        meet("leave", SECONDS_TO_LEAVE)
    os._exit(code)
