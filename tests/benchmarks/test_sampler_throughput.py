"""The throughput of samplers: every one gets a row whose numbers belong together."""

import json

import pytest

TINY = "--resolutions 8 --chains 4 --steps 2 --repeats 1"


def test_every_sampler_gets_a_row(load, command, tmp_path):
    samplers = list(load("sampler_throughput").SAMPLERS)
    assert {"gradient_descent", "mala", "adaptive_svgd"} < set(samplers)
    head, *lines = command("sampler_throughput", f"{TINY} --energies mlp --out {tmp_path}")
    assert "  2 steps, median of 1 repeats  " in head
    assert [line.split()[:4] for line in lines[2:]] == [["mlp", "8", "4", n] for n in samplers]
    rows = json.loads((tmp_path / "sampler_throughput.json").read_text())["rows"]
    assert [row["sampler"] for row in rows] == samplers
    for row in rows:
        # Time of the chain over time of its gradients, both as the row says.
        chain_ms = 1e3 * 2 / row["steps/s"]
        assert row["ratio"] == pytest.approx(chain_ms / (2 * row["gradient ms"]), rel=1e-6)
        # At least the chains' own positions: 4 of 64 pixels in single precision.
        assert row["peak MiB"] * 2**20 >= 4 * 64 * 4


def test_as_many_gradients_as_steps_are_timed(load):
    asked = []
    chain, gradient = (lambda name=name: asked.append(name) for name in ("chain", "gradient"))
    load("_chains").beside_gradients(chain, gradient, steps=3, repeats=1, calls=2)
    assert asked == 2 * (2 * ["chain"] + 6 * ["gradient"])


def test_convolutions_are_measured_too(command):
    lines = command("sampler_throughput", f"{TINY} --energies conv --samplers sgld")
    assert lines[-1].split()[:4] == ["conv", "8", "4", "sgld"]


def test_what_counts_is_at_least_one(refused):
    for asked, got in [("--steps 0", "0"), ("--chains 64 -4", "-4"), ("--resolutions 8.5", "8.5")]:
        found = refused("sampler_throughput", asked)
        assert f"must be an integer of at least 1, got '{got}'" in found
