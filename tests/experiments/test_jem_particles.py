"""The particles of a joint model's configuration are one system, however many shards hold them."""

import jax
import numpy as np
import pytest

from ebmjax.training import make_mesh
from ebmjax.training._block import make_block
from ebmjax.training._sharding import place_state, replicate
from experiments import families
from experiments.configs import svgdjem_digits


# Positions and scores, and with noise its draws too: in the loop over steps, and again in the last
# step, which stands outside of it. Then the ends, for their entropy.
@pytest.mark.parametrize(("name", "num_gathered"), [("svgd", 5), ("stochastic_svgd", 7)])
def test_devices_gather_what_particles_need_of_each_other(name, num_gathered, tmp_path):
    config = svgdjem_digits.get_config("smoke")
    config.update_from_flattened_dict({"sampler.name": name, "mesh.num_shards": 2})
    experiment = families.build(config, tmp_path)
    mesh = make_mesh(2)
    assert mesh.size == 2
    data = replicate(jax.tree.map(np.asarray, experiment.data), mesh)
    indices = tuple(np.zeros((2, 2, size // 2), np.int32) for size in experiment.plan.streams)
    block, state = make_block(experiment.train_step, mesh), place_state(experiment.state, mesh)
    program = block.lower(jax.random.key(0), state, data, indices).as_text()
    assert program.count("stablehlo.all_gather") == num_gathered
