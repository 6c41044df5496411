"""The compiled step of every family: what it computes in, and what its devices exchange."""

import math
import re

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import build_experiment
from jax.sharding import PartitionSpec
from test_configs import MODULES

from ebmjax.recipes.models.build import root_keys
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches
from ebmjax.training._sharding import describe_shapes, make_mesh, state_specs

COLLECTIVE = re.compile(
    r" = (\S+) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\("
)
DIGITS = ["jem_digits.py", "igebm_digits.py", "thermo_digits.py"]


def smoke(name, **changes):
    config = MODULES[name].get_config("smoke")
    config.update_from_flattened_dict(changes)
    return config


def lowered(config, folder):
    """The block of one step, on as many devices as there are shards."""
    experiment = build_experiment(config, folder)
    plan = experiment.plan
    mesh = make_mesh(plan.num_shards)
    shapes = [(1, plan.num_shards, size // plan.num_shards) for size in plan.streams]
    indices = tuple(jnp.zeros(shape, jnp.int32) for shape in shapes)
    everywhere = PartitionSpec()
    return make_block(experiment.train_step, mesh).lower(
        describe_shapes(root_keys(config)[1], mesh, everywhere),
        describe_shapes(experiment.state, mesh, state_specs()),
        describe_batches(
            experiment.data, indices if isinstance(plan.batch_size, tuple) else indices[0], mesh
        ),
        experiment.numbers,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", DIGITS)
def test_half_precision_reaches_the_networks_and_leaves_the_state_alone(name, tmp_path):
    changed = lowered(smoke(name, **{"model.dtype": "bfloat16"}), tmp_path)
    plain, text = lowered(smoke(name), tmp_path).as_text(), changed.as_text()
    assert "threefry2x32" in plain
    assert "rng_bit_generator" not in plain
    assert "bf16" not in plain
    products = r"stablehlo\.(?:dot_general|convolution)\W.*-> tensor<[\dx]*xbf16>"
    assert re.search(products, text)
    assert jnp.dtype(jnp.bfloat16) not in {leaf.dtype for leaf in jax.tree.leaves(changed.out_info)}


BATCH_SIZE = 16
OF_EIGHT = {
    "jem_digits.py": {"train.batch_size": BATCH_SIZE, "train.positive_batch_size": BATCH_SIZE},
    "igebm_digits.py": {"train.batch_size": BATCH_SIZE, "sampler.num_samples": BATCH_SIZE},
    "thermo_digits.py": {"train.batch_size": BATCH_SIZE},
    "toy_samplers.py": {"train.batch_size": BATCH_SIZE, "sampler.num_samples": BATCH_SIZE},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EIGHT)
def test_a_step_on_eight_devices_is_one_all_reduce(name, tmp_path):
    """Independent chains exchange nothing; losses of a whole batch see all its log densities."""
    config = smoke(name, **{"mesh.num_shards": 8, **OF_EIGHT[name]})
    program = lowered(config, tmp_path).compile().as_text()
    found = COLLECTIVE.findall(program)
    assert [kind for _, kind in found].count("all-reduce") == 1
    gathered = [shape for shape, kind in found if kind != "all-reduce"]
    sizes = [
        [int(one) for one in re.search(r"\[([\d,]*)\]", shape)[1].split(",")] for shape in gathered
    ]
    assert all(math.prod(size) <= BATCH_SIZE for size in sizes), gathered
    if name == "thermo_digits.py":
        assert not gathered
