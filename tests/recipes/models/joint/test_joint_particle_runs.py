"""The particles of a joint model's configuration: one system, and the kernel between them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.recipes.config import families
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.parts.samplers.bind import bind_sampler
from ebmjax.training import make_mesh
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches
from ebmjax.training._sharding import place_state
from experiments.configs import svgdjem_digits


# Positions and scores, and with noise its draws too: in the loop over steps, and again in the last
# step, which stands outside of it. Then the ends, for their entropy, and the two log densities of
# the loss.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_gathered"), [("svgd", 7), ("adaptive_svgd", 7), ("stochastic_svgd", 9)]
)
def test_devices_gather_what_particles_need_of_each_other(name, num_gathered, shallow, tmp_path):
    config = svgdjem_digits.get_config("smoke")
    config.update_from_flattened_dict({"sampler.name": name, "mesh.num_shards": 2})
    experiment = build_experiment(config, tmp_path)
    mesh = make_mesh(2)
    assert mesh.size == 2
    indices = tuple(np.zeros((2, 2, size // 2), np.int32) for size in experiment.plan.streams)
    batches = describe_batches(experiment.data, indices, mesh)
    block, state = make_block(experiment.train_step, mesh), place_state(experiment.state, mesh)
    program = block.lower(jax.random.key(0), state, batches, experiment.numbers).as_text()
    assert program.count("stablehlo.all_gather") == num_gathered


# The distances of three particles on a line are 0.2, 0.6 and 0.8.


def test_adaptive_svgd_moves_by_its_section():
    """Two moves: the first by the step size towards 0, the second by the decay and the damping."""
    fields = {"step_size": 0.1, "decay": 0.5, "damping": 0.3}
    config = svgdjem_digits.get_config()
    config.update_from_flattened_dict({f"sampler.adaptive_svgd.{k}": v for k, v in fields.items()})
    config.update_from_flattened_dict({"sampler.name": "adaptive_svgd", "sampler.box": "none"})
    families.check(config)
    chain = bind_sampler(find_samplers(config)[config.sampler.name], config.sampler)(
        lambda x: -0.5 * jnp.sum(x**2)
    )
    state, expected, moment = chain.init(jnp.full((1, 1, 1, 1), 0.9)), 0.9, 0.9**2
    for key in jax.random.split(jax.random.key(0), 2):
        state, info = jax.jit(chain.step)(key, state)
        moment = 0.5 * moment + 0.5 * expected**2
        expected -= 0.1 * expected / (0.3 + moment**0.5)
        assert float(state.particles.squeeze()) == pytest.approx(expected, rel=1e-5)
    assert info.preconditioner == pytest.approx(1 / (0.3 + moment**0.5), rel=1e-5)
