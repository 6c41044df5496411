"""The speed of joint training: the ratio is of the same network and of as many steps."""

import itertools
import math
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict
from training_problems import regression

from ebmjax.learning import run_chains
from ebmjax.losses import joint_log_density
from ebmjax.networks import WideResNet, from_linen
from ebmjax.samplers import sgld

EPS = 2.0**-23


@pytest.mark.slow
def test_without_pytorch_its_ratio_is_left_out(command):
    tiny = "--images 8x8x1 --steps 2 --batch 2 --jem_steps 1 --block 2 --repeats 3"
    head, *_, chain, train_step = command("joint_training", tiny)
    assert "no PyTorch, for want of --torch_python" in head
    assert chain.startswith("SGLD, 2 steps, 8x8x1")
    numbers = train_step.removeprefix("JEM train step, 1 steps").split()
    assert float(numbers[0]) > 0
    assert numbers[1:] == ["PyTorch", "-", "-", "<=", "1.0"]


def test_a_row_is_of_one_step_and_its_ratio_of_pairs(load):
    row = load("joint_training").compare("a", "b", [2.0, 6.0, 4.0], [1.0, 4.0, 8.0], 4, 1.1)
    assert (row["ms"], row["its ms"], row["ratio"]) == (1000.0, 1000.0, (1.5, 0.5, 2.0))


def test_blocks_are_timed_between_two_monitored_steps(load, monkeypatch):
    """Every block takes 3 s, and what stands beside it 5 s more."""
    module = load("_jem_step")
    clock = itertools.accumulate(itertools.cycle([3.0, 5.0]))
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    (state, step, examples), asked = regression(), itertools.count()
    found, result = module.time_blocks(
        step, state, examples, 8, block=2, repeats=2, beside=lambda: next(asked)
    )
    # Before any step, and after the block that compiles, is not kept.
    assert found == ((3.0, 3.0), (2, 3))
    assert result.state.step == 6


@pytest.mark.parametrize(
    ("num_params", "offset", "message"),
    [
        (6, 1e-6, None),
        (7, 0.0, "PyTorch has 7 parameters, ebmjax 6"),
        (6, 1e-3, "differ by up to 1.0e-03"),
        (6, math.nan, "differ by up to nan"),
    ],
)
def test_only_the_same_network_is_timed(num_params, offset, message, load):
    found = {"num_params": num_params, "logits": [[1.0, -2.0 + offset]]}
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    check = partial(load("_jem_step").check_agreement, found, params, jnp.array([[1.0, -2.0]]))
    if message is None:
        check()
    else:
        with pytest.raises(SystemExit, match=message):
            check()


def test_a_python_without_pytorch_ends_the_program(load):
    with pytest.raises(SystemExit, match="--torch_python ended"):
        load("_torch_process").TorchProcess(Path(shutil.which("false")))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--images 8x8", "--images: must be HEIGHTxWIDTHxCHANNELS, got '8x8'"),
        ("--images 8x8x0", "--images: must be an integer of at least 1, got '0'"),
    ],
)
def test_bad_arguments_end_the_program(arguments, expected, refused):
    assert expected in refused("joint_training", arguments)


def test_chains_without_noise_end_in_the_same_place(load):
    """The command itself compares logits; PyTorch need not be installed."""
    torch = pytest.importorskip("torch")
    shape, network = (8, 8, 1), from_linen(WideResNet(10, 1, 7))
    params, _ = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))
    # Biases start at zero, which would hide one that is not copied.
    params = jax.tree.map(
        lambda leaf: leaf + 0.05 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), params
    )
    theirs = load("_torch").WideResNet(10, 1, 1, 7, is_padded_as_xla=True)
    theirs.load_flax({k: np.asarray(v) for k, v in flatten_dict(params, sep="/").items()})
    start = np.random.default_rng(4).uniform(-1.0, 1.0, (1, *shape)).astype(np.float32)
    settings = {"buffer_size": 1, "batch_size": 2, "num_steps": 3, "reinit_prob": 0.0}
    settings |= {"step_size": 1.0, "noise_scale": 0.0, "learning_rate": 1e-3}
    images = torch.from_numpy(start).permute(0, 3, 1, 2).contiguous()
    trainer = load("_torch").Trainer(theirs, images, None, settings)
    trainer.buffer[:] = images
    found = trainer.sample().permute(0, 2, 3, 1).numpy()

    plan = load("_jem_step").make_plan(shape, 2, 3, partial(sgld, step_size=1.0, noise_scale=0.0))
    starts, keys = jnp.concatenate([start, start]), jax.random.split(jax.random.key(5), 1)
    ends, _, _ = run_chains(
        keys,
        lambda label: lambda x: joint_log_density(network.apply(params, {}, x)[0]),
        plan,
        starts,
        jnp.zeros(2, jnp.int32),
    )
    # Three scores, each of sums of up to 576 products in two orders in ten layers.
    scale = float(jnp.abs(ends - starts).max())
    assert scale > 1e-3
    np.testing.assert_allclose(found, ends, rtol=0, atol=3 * 10 * 576 * EPS * scale)
    np.testing.assert_array_equal(trainer.buffer.permute(0, 2, 3, 1).numpy()[0], found[0])
