"""The cost of a configuration: what is timed, counted and said; its program for other devices."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from ebmjax.recipes.run.machine import QUICK
from ebmjax.training import Plan


@pytest.fixture
def module(load):
    return load("configuration")


@pytest.mark.parametrize("batch_size", [12, (12, 6)])
def test_operations_are_of_every_step_of_a_loop_and_of_the_whole_batch(module, batch_size):
    def train_step(key, state, batch, numbers):
        del key, numbers
        first = batch if isinstance(batch_size, int) else batch[1]

        def move(rows, _):
            return jax.lax.pmean(rows @ state, "data"), None

        return jax.lax.scan(move, first.reshape(-1, 32), length=7)[0], {}

    experiment = SimpleNamespace(
        plan=Plan(total_steps=1, batch_size=batch_size, num_shards=3),
        train_step=train_step,
        state=jnp.ones((32, 32)),
        data=jnp.ones((50, 32)),
        numbers={},
    )
    num_rows = 12 if isinstance(batch_size, int) else 6
    products = 7 * 2 * num_rows * 32 * 32
    assert products <= module.step_flops(experiment, jax.random.key(0)) < 1.02 * products


@pytest.mark.slow
def test_a_configuration_is_timed_and_nothing_else_is_left(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = "--config=configs/toy_samplers.py:smoke --blocks=2 --config.seed=3"
    _, _, _, *lines = command("configuration", asked)
    found = [line.split("|")[1].strip() for line in lines]
    assert found == ["to compile", "program", "a step", "an epoch", "the run", "process"]
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    kept = json.loads((tmp_path / "runs" / "configuration.json").read_text())
    assert kept["command"] == ["configuration", *asked.split()]


def test_a_configuration_that_cannot_be_built_is_named_by_its_field(command):
    with pytest.raises(SystemExit, match=r"error: .*config\.mesh\.num_shards=3"):
        command(
            "configuration", "--config=configs/toy_samplers.py:smoke --config.mesh.num_shards=3"
        )


REPOSITORY = Path(__file__).resolve().parents[2]
# libtpu does not know the flags that tests give to XLA.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
COMMAND = [sys.executable, "benchmarks/compile_for.py", "--config=configs/toy_samplers.py:smoke"]


def output(*arguments, **variables):
    environment = ENVIRONMENT | variables
    command = [*COMMAND, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)


def test_an_unknown_topology_is_refused():
    done = output("--topology=v5e:no")
    assert done.returncode == 2
    assert "--topology=v5e:no" in done.stderr
    assert "libtpu" in done.stderr


@pytest.mark.slow
def test_the_step_of_a_run_compiles_for_this_machine(tmp_path):
    config = "--config=configs/igebm_digits.py:smoke"
    done = output(config, "--topology=cpu", f"--out={tmp_path}", XLA_FLAGS=" ".join(QUICK))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "compile_for.json").read_text())["rows"]
    assert row["program"] == "step on 1"
    assert row["MiB"] >= row["arguments"] > 0


def test_a_benchmark_may_be_named_after_an_option(load, monkeypatch, capsys):
    words = "--out x configuration --config=configs/jem_digits.py --blocks=0"
    monkeypatch.setattr(sys, "argv", ["run.py", *words.split()])
    with pytest.raises(SystemExit):
        load("run").main()
    assert "--blocks must be at least 1" in capsys.readouterr().err
