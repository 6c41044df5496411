"""The variant bfloat16 of every configuration of images."""

import re

import jax
import jax.numpy as jnp
import pytest
from test_configs import MODULES

from ebmjax.recipes.core import families


def traced(config, folder):
    """The program of a step, and the types of what it returns: state and metrics."""
    experiment = families.build(config, folder)
    num_shards = experiment.plan.num_shards

    def batch_of(size):
        return jax.tree.map(
            lambda leaf: jnp.zeros((num_shards, size // num_shards, *leaf.shape[1:]), leaf.dtype),
            experiment.data,
        )

    batches = tuple(map(batch_of, experiment.plan.streams))
    batch = batches if isinstance(experiment.plan.batch_size, tuple) else batches[0]
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec()
    step = jax.shard_map(
        experiment.train_step, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    arguments = jax.random.key(0), experiment.state, batch
    program, shapes = jax.make_jaxpr(step, return_shape=True)(*arguments)
    return str(program), {leaf.dtype for leaf in jax.tree.leaves(shapes)}


@pytest.mark.parametrize("name", ["jem_digits.py", "igebm_digits.py", "thermo_digits.py"])
def test_the_variant_reaches_the_networks_and_leaves_the_state_alone(name, tmp_path):
    changed = MODULES[name].get_config("smoke")
    chosen = MODULES[name].get_config("bfloat16")
    for field in ("model.dtype", "sampler.dtype"):
        section, _, last = field.partition(".")
        if last in chosen[section]:
            changed[section][last] = chosen[section][last]
    products = r":bf16\[[\d,]*\] = (?:dot_general|conv_general_dilated)"
    program, types = traced(changed, tmp_path)
    assert re.search(products, program)
    assert jnp.dtype(jnp.bfloat16) not in types
    assert not re.search(":bf16", traced(MODULES[name].get_config("smoke"), tmp_path)[0])
