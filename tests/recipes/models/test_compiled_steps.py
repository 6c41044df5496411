"""The compiled step of every family: what it computes in, and what its devices exchange."""

import math
import re

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import change, make_step
from test_configs import MODULES

COLLECTIVE = re.compile(
    r" = (\S+) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\("
)
BATCH_SIZE = 16
OF_EIGHT = {
    "jem_digits": {"train.batch_size": BATCH_SIZE, "train.positive_batch_size": BATCH_SIZE},
    "igebm_digits": {"train.batch_size": BATCH_SIZE, "sampler.num_samples": BATCH_SIZE},
    "thermo_digits": {"train.batch_size": BATCH_SIZE},
    "toy_samplers": {"train.batch_size": BATCH_SIZE, "sampler.num_samples": BATCH_SIZE},
}


def lowered(name, folder, **changes):
    """The program of one step of a smoke run, on as many devices as there are shards."""
    config = change(MODULES[f"{name}.py"].get_config("smoke"), changes)
    _, block, arguments = make_step(config, folder)
    return block.lower(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jem_digits", "igebm_digits", "thermo_digits"])
def test_half_precision_reaches_the_networks_and_leaves_the_state_alone(name, tmp_path):
    changed = lowered(name, tmp_path, **{"model.dtype": "bfloat16"})
    plain, text = lowered(name, tmp_path).as_text(), changed.as_text()
    assert "threefry2x32" in plain
    assert "rng_bit_generator" not in plain
    assert "bf16" not in plain
    products = r"stablehlo\.(?:dot_general|convolution)\W.*-> tensor<[\dx]*xbf16>"
    assert re.search(products, text)
    assert jnp.dtype(jnp.bfloat16) not in {leaf.dtype for leaf in jax.tree.leaves(changed.out_info)}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EIGHT)
def test_a_step_on_eight_devices_is_one_all_reduce(name, tmp_path):
    """Independent chains exchange nothing; losses of a whole batch see all its log densities."""
    changes = {"mesh.num_shards": 8, **OF_EIGHT[name]}
    found = COLLECTIVE.findall(lowered(name, tmp_path, **changes).compile().as_text())
    assert [kind for _, kind in found].count("all-reduce") == 1
    gathered = [shape for shape, kind in found if kind != "all-reduce"]
    sizes = [
        [int(one) for one in re.search(r"\[([\d,]*)\]", shape)[1].split(",")] for shape in gathered
    ]
    assert all(math.prod(size) <= BATCH_SIZE for size in sizes), gathered
    if name == "thermo_digits":
        assert not gathered


# Particles gather positions and scores, and with noise its draws too: in the loop over steps, and
# again in the last step, which stands outside of it. Then the ends, for their entropy, and the two
# log densities of the loss. SAM's two passes are one loop.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes", "num_gathered"),
    [
        ("igebm_digits", {"model.features": (4,), "sampler.num_samples": 8}, 2),
        ("jem_digits", {"optimizer.rho": 0.1}, 2),
        ("svgdjem_digits", {"sampler.name": "svgd"}, 7),
        ("svgdjem_digits", {"sampler.name": "adaptive_svgd"}, 7),
        ("svgdjem_digits", {"sampler.name": "stochastic_svgd"}, 9),
    ],
)
def test_shards_are_one_batch_and_one_system(name, changes, num_gathered, tmp_path, shallow):
    """Counts what two devices exchange: with a batch each, it would be only the mean gradient."""
    if "sampler.name" not in changes:
        changes = {"loss.name": "beta", "loss.beta": 0.5, "sampler.num_steps": 1} | changes
    program = lowered(name, tmp_path, **{"mesh.num_shards": 2}, **changes).as_text()
    assert program.count("stablehlo.all_gather") == num_gathered
