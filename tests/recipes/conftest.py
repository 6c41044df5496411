"""Finished runs for all tests, networks that compile soon, and one cache for all processes."""

import os
import sys
from pathlib import Path

import pytest
from experiment_runs import digits
from linear_family import NAME, linear
from small_networks import ShallowResNet, random_features

from ebmjax import evaluate, networks
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


@pytest.fixture(scope="session", autouse=True)
def trained_extractor():
    """``evaluate.own_classifier`` itself. The tests' runs have features that need no training."""
    original = evaluate.own_classifier
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "own_classifier", random_features)
        yield original


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
    assert launch(digits(), "configs/thermo_digits.py:smoke", str(workdir)) is None
    return workdir


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run of the linear family: to be read, and copied before changed."""
    workdir = tmp_path_factory.mktemp("finished") / "run"
    assert launch(linear(), NAME, str(workdir)) is None
    return workdir
