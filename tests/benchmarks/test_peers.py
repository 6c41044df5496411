"""The comparison with other libraries: both do the same work, and a row has each at its best."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers

STEPS = 50


@pytest.fixture
def module(load):
    return load("peers")


@pytest.fixture
def log_density_fn():
    """A Gaussian so narrow that the benchmark's step takes a chain across it."""
    return lambda x: -0.5 * jnp.sum((x / 0.1) ** 2)


def test_svgd_takes_the_same_steps(module, log_density_fn):
    start = jax.random.normal(jax.random.key(0), (8, 3))
    (ours, theirs) = (
        module.compile_chain(made["svgd"](log_density_fn), start, STEPS, True)()
        for made in (module.SAMPLERS, module.of_blackjax())
    )
    assert np.max(np.abs(ours.particles - start)) > 0.1
    np.testing.assert_allclose(ours.particles, theirs.particles, rtol=1e-4)  # 50 roundings


def test_a_row_has_the_peer_at_its_best_and_its_ratio(module, monkeypatch, command, tmp_path):
    """Ours takes 2 s on one device and 1 s on two; a peer 6 and 3 s, one way fails."""

    def fail():
        raise module.PeersUnavailableError("no C++ compiler")

    def works():
        ways = {"eager": lambda: 6.0, "channels_last": lambda: 3.0}
        yield module.Work("work", {1: 2.0, 2: 1.0}, "PyTorch", {**ways, "compile": fail})
        yield module.Work("other", {1: 2.0, 2: 1.0}, "PyTorch", {"eager": fail})

    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(module.harness, "time_call", lambda clock, *calls: clock if calls else 1.0)
    monkeypatch.setitem(module.WORKS, "chains", works)
    lines = command("chains", f"--repeats 2 --out {tmp_path}")
    row, other = json.loads((tmp_path / "chains.json").read_text())["rows"]
    assert row["peer"] == "PyTorch channels_last"
    times = [row[f"{side} ms"]["median"] for side in ("1 device", "2 devices", "peer")]
    assert times == [2000.0, 1000.0, 3000.0]
    assert row["ratio"] == {"median": 3.0, "low": 3.0, "high": 3.0}
    assert row["its other ways"] == "compile fails: no C++ compiler; eager 6000 ms"
    assert (other["peer"], other["ratio"]) == ("PyTorch", None)
    assert len(lines) == 5  # the head, the columns, a rule and two rows


def test_chains_over_devices_are_those_of_one(module):
    start = jnp.arange(16.0).reshape(8, 2)
    sampler = samplers.sgld(lambda x: -0.5 * jnp.sum(x**2), step_size=0.1)
    one, many = (module.compile_chain(sampler, start, 3, False, n)().position for n in (1, 8))
    assert len(many.sharding.device_set) == 8
    assert module.on_devices(str, 12) == {1: "1", 6: "6"}
    np.testing.assert_array_equal(one, many)


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
