"""The cost of a configuration: what is timed, counted and said."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from ebmjax.recipes.core import command_line
from ebmjax.training import Plan

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def module():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("configuration")


def test_the_report_is_of_the_median_block(module):
    cost = module.Cost(
        step_seconds=[0.5, 0.25, 2.0],
        compile_seconds=30.0,
        steps_per_epoch=10,
        total_steps=72_000,
        flops=3e12,
        peak_bytes=3 * 2**29,
    )
    lines = [line.split(maxsplit=2) for line in module.report(cost, batch_size=64).splitlines()]
    assert lines[0][2] == "500 ms (250-2000), 2 a second, 128 examples a second"
    assert lines[1][2] == "5 s, 10 steps"
    assert lines[2][2] == "10 h, 72000 steps, without monitoring"
    assert lines[3][2] == "30 s"
    assert lines[4] == ["memory", "1.5", "GiB at its peak"]
    assert lines[5] == ["operations", "3", "T a step, 6 T a second, 216 P in 72000 steps"]
    counted = module.report(cost._replace(step_seconds=[]), batch_size=64)
    assert counted.split(maxsplit=2)[1:] == ["3", "T a step, 216 P in 72000 steps"]


@pytest.mark.parametrize("batch_size", [12, (12, 6)])
def test_operations_are_of_every_step_of_a_loop_and_of_the_whole_batch(module, batch_size):
    def train_step(key, state, batch):
        del key
        first = batch if isinstance(batch_size, int) else batch[1]

        def move(rows, _):
            return jax.lax.pmean(rows @ state, "data"), None

        return jax.lax.scan(move, first.reshape(-1, 32), length=7)[0], {}

    experiment = SimpleNamespace(
        plan=Plan(total_steps=1, batch_size=batch_size, num_shards=3),
        train_step=train_step,
        state=jnp.ones((32, 32)),
        data=jnp.ones((50, 32)),
    )
    num_rows = 12 if isinstance(batch_size, int) else 6
    products = 7 * 2 * num_rows * 32 * 32
    assert products <= module.step_flops(experiment, jax.random.key(0)) < 1.02 * products


def test_a_configuration_is_timed_and_nothing_is_left(module, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ["--config=configs/toy_samplers.py:smoke", "--blocks=2", "--config.seed=3"]
    monkeypatch.setattr(sys, "argv", ["configuration.py", *arguments])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert "configs/toy_samplers.py:smoke --config.seed=3" in lines[0]
    assert [line[:12].strip() for line in lines[1:]] == [
        "a step",
        "an epoch",
        "the run",
        "to compile",
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["joint", "image", "latent"])
def test_the_images_may_choose_the_number_of_epochs(name, module):
    """The configurations of anyone's images leave ``train.num_epochs`` to them."""
    config = command_line.read(name, [])
    cost = module.measure(config, num_blocks=0, has_flops=False)
    assert config.train.num_epochs is None
    assert cost.steps_per_epoch == 1440 // config.train.batch_size
    assert cost.total_steps % cost.steps_per_epoch == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config.train.num_repeats=2", "--flops"], "--config.train.num_repeats=1"),
        (["--blocks=0"], "give --flops"),
        (["--blocks=-1"], "argument --blocks"),
        (["--random_examples=9"], "leave it out"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments, message, module, monkeypatch, capsys):
    command = ["configuration.py", "--config=configs/thermo_digits.py", *arguments]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        module.main()
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_configuration_that_cannot_be_built_is_told_by_its_field(module, monkeypatch):
    command = ["configuration.py", "--config=configs/toy_samplers.py:smoke"]
    monkeypatch.setattr(sys, "argv", [*command, "--config.mesh.num_shards=3"])
    with pytest.raises(SystemExit, match=r"error: .*config\.mesh\.num_shards=3"):
        module.main()
