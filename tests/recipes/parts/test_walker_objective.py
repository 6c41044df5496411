"""Objectives with a memory by configuration: their shards, resuming, bad fields."""

import os
import signal
from dataclasses import replace

import jax
import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.recipes.config import command_line
from ebmjax.training import Checkpoints, fit, tree_digest

FLAGS = ["--config.loss.name=jarzynski", "--config.loss.jarzynski.num_walkers=24"]
# The second phase begins where the run is stopped.
MATCHING = ["--config.loss.name=energy_matching", "--config.loss.energy_matching.num_steps=50"]


def read(name, *flags):
    return command_line.read(f"configs/{name}.py:smoke", [*FLAGS, *flags])


@pytest.mark.slow
@pytest.mark.parametrize("flags", [FLAGS, MATCHING])
def test_two_shards_go_on_bit_for_bit(flags, tmp_path):
    """On two devices; stopped half-way, and log Z of walkers is that of one population."""
    config = command_line.read("configs/toy_beta.py:smoke", [*flags, "--config.mesh.num_shards=2"])
    built = build_experiment(config, tmp_path / "run")
    half = built.plan.total_steps // 2

    def sitting(*stop_at, **options):
        def monitor(state, step):
            if step in stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            return {}

        devices = jax.devices()[:2]
        plan = replace(built.plan, monitor_every=half, checkpoint_every=half)
        return fit(
            jax.random.key(0), built.state, built.train_step, built.data, plan,
            monitor=monitor, devices=devices, **options,
        )  # fmt: skip

    whole = sitting()
    stopped = sitting(half, checkpoints=Checkpoints(tmp_path / "saved"))
    assert int(stopped.state.step) == half
    resumed = sitting(checkpoints=Checkpoints(tmp_path / "saved"))
    assert tree_digest(resumed.state) == tree_digest(whole.state)
    assert tree_digest(resumed.state.carry.memory) != tree_digest(stopped.state.carry.memory)
    row, memory = whole.row, built.state.carry.memory
    if flags is MATCHING:
        np.testing.assert_array_equal(whole.state.carry.memory, [built.plan.total_steps] * 2)
        return
    assert memory.positions.shape == (2, 12, 2)
    expected = -row["positive_energy"] - row["log_normalizer"]
    assert row["log_likelihood"] == pytest.approx(expected, rel=1e-5)
    assert 1 / 24 <= row["effective_sample_fraction"] <= 1.0


@pytest.mark.parametrize(
    ("box", "spread"), [(("none",), 3.0), (("clamp", "--config.sampler.low=-2.0"), None)]
)
def test_walkers_start_gaussian_or_uniform_in_the_box(box, spread, tmp_path):
    """Their log weights are minus the log density of that law."""
    flags = [f"--config.sampler.box={box[0]}", *box[1:]]
    if spread:
        flags.append(f"--config.loss.jarzynski.start_scale={spread}")
    walkers = build_experiment(read("igebm_digits", *flags), tmp_path).state.carry.memory
    x, log_weights = (np.asarray(walkers[i][0], np.float64) for i in (0, 2))
    size = x[0].size
    if spread:
        log_density = -0.5 * np.square(x / 3.0).reshape(24, -1).sum(1)
        log_density -= size * np.log(3.0 * np.sqrt(2 * np.pi))
    else:
        assert -2.0 <= x.min() < -1.9
        assert x.max() <= 1.2  # the file's upper end
        log_density = np.full(24, -size * np.log(3.2))
    np.testing.assert_allclose(log_weights, -log_density, rtol=1e-5)


@pytest.mark.parametrize("name", ["toy_beta", "jem_digits"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--config.mesh.num_shards=2", "--config.loss.jarzynski.num_walkers=25"],
            r"config\.loss\.jarzynski\.num_walkers must be a multiple of .*num_shards=2, got 25",
        ),
        (
            ["--config.loss.jarzynski.num_walkers=2", "--config.mesh.num_shards=2"],
            r"num_walkers must be at least 2 for each of config\.mesh\.num_shards=2 shards.*got 2",
        ),
        (["--config.loss.jarzynski.step_size=0.0"], r"step_size must be positive"),
        (["--config.sampler.num_samples=8"], r"sampler\.num_samples=8 has no effect"),
        (
            ["--config.loss.name=energy_matching", "--config.loss.energy_matching.num_steps=49"],
            r"num_steps times step_size must be at least 1.* 49 \* 0\.02 = 0\.98: take longer",
        ),
    ],
)
def test_bad_fields_are_refused(name, flags, message):
    flags = flags if "--config.loss.name=energy_matching" in flags else [*FLAGS, *flags]
    with pytest.raises(SystemExit, match=message):
        command_line.read(f"configs/{name}.py:smoke", flags)
