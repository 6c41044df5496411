"""Finished runs for all tests, networks that compile soon, and one cache for all processes."""

import contextlib
import os
from pathlib import Path

import pytest
from experiment_runs import digits, launch
from linear_family import NAME, linear
from matplotlib.figure import Figure
from small_networks import ShallowResNet, classifier_projected, digits_projected

from ebmjax import evaluate, networks

CACHE_DIR = "JAX_COMPILATION_CACHE_DIR"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "jax"


SAVED: dict[str, Figure] = {}


@pytest.fixture(scope="session", autouse=True)
def kept_figures():
    """Figures are kept by the name of their file."""
    save = Figure.savefig

    def keep(figure, path):
        save(figure, path)
        SAVED[path.name] = figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", keep)
        yield


@pytest.fixture
def figures():
    """The figures that a test saves, by the name of the file."""
    SAVED.clear()
    return SAVED


@pytest.fixture(scope="session", autouse=True)
def compilation_cache():
    """For the processes that the tests start, the one that the tests themselves use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, CACHE_DIR, os.environ.get(CACHE_DIR, str(CACHE)))
        yield


@contextlib.contextmanager
def projecting():
    """Features need no training and no compiling."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "own_classifier", classifier_projected)
        patch.setattr(evaluate, "digits_features", digits_projected)
        yield


@pytest.fixture(scope="module", autouse=True)
def projected_features():
    """The tests' runs have such features; tests elsewhere, which may come later, have the real."""
    with projecting():
        yield


@pytest.fixture(scope="module")
def shallow():
    """Joint models are made of networks without residual blocks, which compile soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "WideResNet", ShallowResNet)
        yield


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """The folder of a finished smoke run of a latent EBM: to be read, and copied before changed."""
    workdir = tmp_path_factory.mktemp("smoke") / "run"
    with projecting():  # a fixture of the session comes before those of a module
        assert launch(digits(), "configs/thermo_digits.py:smoke", str(workdir)) is None
    return workdir


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run of the linear family: to be read, and copied before changed."""
    workdir = tmp_path_factory.mktemp("finished") / "run"
    assert launch(linear(), NAME, str(workdir)) is None
    return workdir
