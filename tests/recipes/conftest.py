"""One finished smoke run for all tests, and one compilation cache for all processes."""

import os
import sys
from pathlib import Path

import pytest
from experiment_runs import run_script
from linear_family import NAME, linear

from ebmjax.recipes.core.launch import launch

CACHE_DIR = "JAX_COMPILATION_CACHE_DIR"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "jax"


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """A figure left open is the fault of the test that drew it, not of one that counts later."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None and pyplot.get_fignums():
        pyplot.close("all")
        pytest.fail("figures stay open")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache():
    """For the processes that the tests start, the one that the tests themselves use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, CACHE_DIR, os.environ.get(CACHE_DIR, str(CACHE)))
        yield


@pytest.fixture(scope="session")
def smoke_process(tmp_path_factory):
    """(finished process, its working directory): the smoke run, without --workdir."""
    folder = tmp_path_factory.mktemp("smoke")
    return run_script("--config=configs/thermo_digits.py:smoke", cwd=folder), folder


@pytest.fixture(scope="session")
def smoke(smoke_process):
    """The folder of the finished smoke run: to be read, and copied before it is changed."""
    finished, folder = smoke_process
    assert finished.returncode == 0, finished.stderr
    (workdir,) = (folder / "runs" / "thermo_digits").iterdir()
    return workdir


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run of the linear family: to be read, and copied before changed."""
    workdir = tmp_path_factory.mktemp("finished") / "run"
    assert launch(linear(), NAME, str(workdir)) is None
    return workdir
