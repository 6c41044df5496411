"""Eight host devices, a persistent compilation cache and strict shapes for every test."""

import ctypes
import functools
import gc
import os
import shutil
import subprocess
import time
from pathlib import Path

from ebmjax.recipes.run.machine import QUICK

# Before JAX is imported: the tests of data parallelism want eight devices on any machine, and most
# of the suite's time goes into compiling programs that run once.
os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=8", *QUICK]
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Each process of tests has a core of its own: OpenBLAS's threads would wait busily for others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import pytest

gc.disable()  # until all tests are collected
STARTED, OVER = time.monotonic(), "--minutes is over"

# JAX 0.10 makes a context for every program that it lowers, in 3 ms: a fifth of the time of a small
# compilation. One serves them all.
if jax.__version__.startswith("0.10."):
    from jax._src.interpreters import mlir

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)

# Checkpoints are many small files, and a busy disk takes most of the time of a short run for them.
MEMORY = Path("/dev/shm")
may_run = MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
if may_run and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "jax"
if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):  # which JAX reads by itself
    jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser):
    what = "skip what has not begun after so many; another file comes first for every commit"
    parser.addoption("--minutes", type=float, help=what)


def pytest_collection_modifyitems(config, items):
    """Lets every commit begin at another file, where the time may not suffice for all."""
    if config.option.minutes and items:
        command = ["git", "-C", str(config.rootpath), "rev-parse", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        files = list(dict.fromkeys(item.path for item in items))
        first = files[int(commit[:8] or "0", 16) % len(files)]
        start = next(place for place, item in enumerate(items) if item.path == first)
        items[:] = items[start:] + items[:start]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skips tests after the time is over."""
    minutes = item.config.option.minutes
    if minutes and time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(OVER)


def pytest_terminal_summary(terminalreporter):
    """Counts what was left out."""
    skipped = terminalreporter.stats.get("skipped", [])
    if num := sum(OVER in str(report.longrepr) for report in skipped):
        terminalreporter.line(f"{num} tests did not run: {OVER}.")


def pytest_collection_finish():
    """Looks for cycles among later objects alone, and seldom: tracing makes many without cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


MEMORY_LIMIT = 3 * 2**30


def resident_bytes():
    """Memory of this process in bytes; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True, scope="module")
def bounded_memory():
    """Drops compiled programs once they fill gigabytes: thousands of tests leave theirs behind."""
    yield
    if resident_bytes() > MEMORY_LIMIT:
        jax.clear_caches()
        # Else they stay resident, and every later module would drop its programs.
        ctypes.CDLL(None).malloc_trim(0)
