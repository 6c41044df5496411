"""The throughput of samplers: every one gets a row whose numbers belong together."""

import json
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers

TINY = "--resolutions 8 --chains 4 --steps 2 --repeats 1"


@pytest.mark.slow
def test_every_sampler_gets_a_row(load, command, tmp_path):
    samplers = list(load("sampler_throughput").SAMPLERS)
    assert {"gradient_descent", "mala", "adaptive_svgd"} < set(samplers)
    command("samplers", f"{TINY} --energies mlp --out {tmp_path}")
    rows = json.loads((tmp_path / "samplers.json").read_text())["rows"]
    assert [row["sampler"] for row in rows] == samplers
    for row in rows:
        # Time of the chain over time of its gradients, both as the row says.
        chain_ms = 1e3 * 2 / row["steps/s"]
        assert row["ratio"]["median"] == pytest.approx(
            chain_ms / (2 * row["gradient ms"]), rel=1e-6
        )
        # At least the chains' own positions: 4 of 64 pixels in single precision.
        assert row["peak MiB"] * 2**20 >= 4 * 64 * 4


def test_chains_in_training_take_the_same_steps(load):
    """Without noise they end where the sampler's do."""
    chains, start = load("_chains"), jnp.full((4, 3), 0.5)
    sampler = partial(samplers.sgld, step_size=0.1, noise_scale=0.0)
    ours = chains.compile_chain(sampler(chains.log_gaussian), start, 3, is_interacting=False)()
    ends, *_ = chains.compile_training_chain(sampler, chains.log_gaussian, start, 3)()
    np.testing.assert_allclose(ends, 0.9**3 * start, rtol=1e-6)
    np.testing.assert_allclose(ours.position, ends, rtol=1e-6)
