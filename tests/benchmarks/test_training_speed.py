"""The speed of training: PyTorch's network is as large as ours, and our steps go on."""

import sys
from types import SimpleNamespace

import jax.numpy as jnp
import pytest


@pytest.mark.slow
def test_steps_go_on_from_the_state_before(load):
    configured = load("_configured")
    config, experiment = configured.build_jem(4, 1, 2, 1)
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


@pytest.mark.parametrize(("num_params", "message"), [(6, None), (7, "PyTorch has 7 parameters")])
def test_only_a_network_of_the_same_size_is_timed(num_params, message, load):
    process = SimpleNamespace(ask=lambda work, file: {"num_params": num_params})
    config = SimpleNamespace(to_dict=dict)
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    if message is None:
        load("peers").load_jem(config, params, process)
    else:
        with pytest.raises(SystemExit, match=message):
            load("peers").load_jem(config, params, process)


def test_what_stands_in_for_the_peers_says_why_it_cannot(load, tmp_path, monkeypatch):
    """A stub in place of _torch.py: it answers a line, refuses one, and ends."""
    peers = load("peers")
    monkeypatch.delenv("EBMJAX_PEERS", raising=False)
    with pytest.raises(peers.PeersUnavailableError, match="EBMJAX_PEERS names no Python"):
        peers.TorchProcess(1)
    stub = tmp_path / "stub"
    text = 'print("{}\\n[2.0, 3.0]\\n" + \'{"error": "no compiler"}\')'
    stub.write_text(f"#!{sys.executable}\n{text}")
    stub.chmod(0o755)
    monkeypatch.setenv("EBMJAX_PEERS", str(stub))
    process = peers.TorchProcess(1)
    assert process.ask("plane") == [2.0, 3.0]
    for message in ("no compiler", "the process ended"):
        with pytest.raises(peers.PeersUnavailableError, match=message):
            process.ask("plane")
    process._process.communicate()
