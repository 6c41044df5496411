"""The throughput of samplers: every one gets a row whose numbers belong together."""

import json

import pytest

TINY = "--resolutions 8 --chains 4 --steps 2 --repeats 1"


@pytest.mark.slow
def test_every_sampler_gets_a_row(load, command, tmp_path):
    samplers = list(load("sampler_throughput").SAMPLERS)
    assert {"gradient_descent", "mala", "adaptive_svgd"} < set(samplers)
    command("sampler_throughput", f"--out {tmp_path} {TINY} --energies mlp")
    rows = json.loads((tmp_path / "sampler_throughput.json").read_text())["rows"]
    assert [row["sampler"] for row in rows] == samplers
    for row in rows:
        # Time of the chain over time of its gradients, both as the row says.
        chain_ms = 1e3 * 2 / row["steps/s"]
        assert row["ratio"]["median"] == pytest.approx(
            chain_ms / (2 * row["gradient ms"]), rel=1e-6
        )
        # At least the chains' own positions: 4 of 64 pixels in single precision.
        assert row["peak MiB"] * 2**20 >= 4 * 64 * 4
