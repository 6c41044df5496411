"""Hyperparameters that a configuration sets change the chains."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.models.latent import parts as latent_parts
from ebmjax.recipes.parts.samplers.bind import bind_sampler
from ebmjax.samplers import run_chain, start_chain, start_key
from experiments.configs import jem_digits, thermo_digits

STARTS = jnp.array([[0.3, -0.2], [1.0, 0.5], [-0.4, 2.0]])
FIELDS = {
    "sampler.parallel_tempering.lowest_power": 0.5, "sampler.parallel_tempering.num_inner": 2,
    "sampler.parallel_tempering.temperature": 0.5,
    "sampler.proximal_sgld.temperature": 0.5, "sampler.psgld.step_size": 0.02,
    "sampler.psgld.noise_scale": 0.3, "sampler.psgld.temperature": 0.5,
    "sampler.tempered_mala.step_size": 0.02, "sampler.tempered_mala.noise_scale": 0.3,
    "sampler.tempered_mala.temperature": 0.5, "sampler.tempered_mala.acceptance_threshold": 1.0,
    "sampler.underdamped_langevin.step_size": 0.02, "sampler.underdamped_langevin.friction": 2.0,
    "sampler.underdamped_langevin.temperature": 0.5, "sampler.adaptive_svgd.bandwidth": 3.0,
    "sampler.adaptive_svgd.damping": 1.0, "sampler.adaptive_svgd.decay": 0.5,
    "sampler.stochastic_svgd.bandwidth": 3.0, "sampler.stochastic_svgd.langevin_weight": 0.1,
    "sampler.stochastic_svgd.temperature": 0.5, "sampler.prior.noise_scale": 0.3,
    "sampler.prior.temperature": 0.5, "sampler.posterior.noise_scale": 0.3,
    "sampler.posterior.temperature": 0.5,
}  # fmt: skip


@cache
def states_of(section, name=None, value=None):
    """States of three chains, or of three particles, after four moves by a run's sampler."""
    own = section.removeprefix("sampler.")
    is_latent = own in ("prior", "posterior")
    config = (thermo_digits if is_latent else jem_digits).get_config("smoke")
    if not is_latent:
        config.sampler.name = own
    fields = {"step_size": 0.1, "noise_scale": None, "temperature": 1.0}
    if name == "noise_scale":
        fields["temperature"] = None
    fields |= {name: value} if name else {}
    config[section].update({k: v for k, v in fields.items() if k in config[section]})
    sampler = latent_parts.sampler(config, own) if is_latent else find_samplers(config)[own]
    chain = bind_sampler(sampler, ConfigDict())(lambda x: -0.5 * jnp.sum((2.0 * x) ** 2))

    def run(key, start):
        state = start_chain(start_key(key), chain, start)
        return run_chain(key, state, chain.step, 4)[0]

    many = run if sampler.entry.interacts else jax.vmap(run, (None, 0))
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(many(jax.random.key(0), STARTS))])


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_a_sampler_changes_its_chains(field):
    section, _, name = field.rpartition(".")
    assert np.any(states_of(section) != states_of(section, name, FIELDS[field]))
