"""The speed of training: PyTorch's steps are of the same network, and ours go on."""

import math
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from ebmjax.learning import run_chains
from ebmjax.losses import joint_log_density
from ebmjax.networks import WideResNet, from_linen
from ebmjax.samplers import sgld

EPS = 2.0**-23


class TorchStandIn:
    """Computes the logits of the parameters that it is given, by our network."""

    def ask(self, work, file):
        with np.load(file) as opened:
            arrays = dict(opened)
        params = {tuple(k.split("/")[1:]): v for k, v in arrays.items() if k.startswith("params/")}
        self.settings = str(arrays["settings"])
        logits = WideResNet(10, 1, 10).apply({"params": unflatten_dict(params)}, arrays["probe"])
        return {"num_params": sum(v.size for v in params.values()), "logits": logits.tolist()}


@pytest.mark.slow
def test_steps_are_of_the_network_that_pytorch_is_given(load):
    configured, torch = load("_configured"), TorchStandIn()
    config, experiment = configured.build_jem(4, 1, 2, 1)
    load("peers").load_jem(config, experiment.state.params, torch)
    assert '"crop_padding": 1' in torch.settings
    assert (experiment.plan.batch_size, config.sampler.num_samples) == ((4, 4), 4)
    added = experiment._replace(
        state=experiment.state._replace(step=jnp.int32(0), params=jnp.zeros(3)),
        train_step=lambda key, state, batch: (
            state._replace(step=state.step + 1, params=state.params + batch[0].images.size),
            {},
        ),
    )
    steps = configured.make_steps(config, added)
    steps()
    state, _ = steps()
    # Two calls of two steps on four images of 8x8.
    assert (int(state.step), float(state.params[0])) == (4, 4 * 4 * 64)


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
    check = partial(load("peers").check_agreement, found, params, jnp.array([[1.0, -2.0]]))
    if message is None:
        check()
    else:
        with pytest.raises(SystemExit, match=message):
            check()


def test_what_stands_in_for_the_peers_says_why_it_cannot(load, tmp_path, monkeypatch):
    """A stub in place of _torch.py: it answers a line, refuses one, and ends."""
    peers = load("_peers")
    stub = tmp_path / "stub.py"
    stub.write_text('print("{}\\n[2.0, 3.0]\\n" + \'{"error": "no compiler"}\')')
    monkeypatch.setattr(peers, "python", lambda: Path(sys.executable))
    monkeypatch.setattr(peers, "SCRIPT", stub)
    process = peers.TorchProcess(1)
    assert process.ask("plane") == [2.0, 3.0]
    for message in ("no compiler", "the process ended"):
        with pytest.raises(peers.PeersUnavailableError, match=message):
            process.ask("plane")
    process.close()


def test_an_environment_that_cannot_be_made_is_no_environment(load, tmp_path, monkeypatch, capsys):
    peers = load("_peers")
    monkeypatch.setenv("EBMJAX_PEERS", str(tmp_path / "peers"))
    done = SimpleNamespace(returncode=1, stderr="warning\nNo matching distribution", stdout="")
    monkeypatch.setattr(peers.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(peers.PeersUnavailableError, match="No matching distribution"):
        peers.python()
    assert "torch==2.13.0" in capsys.readouterr().err
    assert not (tmp_path / "peers" / "made").exists()


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
    sampler = {"buffer": {"size": 1, "reinit_prob": 0.0}, "num_samples": 2, "num_steps": 3}
    sampler["sgld"] = {"step_size": 1.0, "noise_scale": 0.0}
    settings = {"sampler": sampler, "optimizer": {"learning_rate": 1e-3}}
    images = torch.from_numpy(start).permute(0, 3, 1, 2).contiguous()
    trainer = load("_torch").Trainer(theirs, images, None, settings)
    trainer.buffer[:] = images
    found = trainer.sample().permute(0, 2, 3, 1).numpy()

    plan = load("_chains").make_plan(shape, 2, 3, partial(sgld, step_size=1.0, noise_scale=0.0))
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
