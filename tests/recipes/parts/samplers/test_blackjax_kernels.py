"""BlackJAX's kernels by configuration: their targets, their options, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.joint import checks as joint_checks
from ebmjax.recipes.models.joint import parts
from ebmjax.recipes.parts.samplers import check
from ebmjax.recipes.parts.samplers.bind import bind_sampler
from ebmjax.recipes.parts.samplers.blackjax_kernels import KERNELS, blackjax_kernel
from experiments.configs import jem_digits

TEMPERATURE = 0.25
# On a Gaussian of deviation 0.5.
OPTIONS = {
    "adjusted_mclmc": {"step_size": 0.5, "num_integration_steps": 3},
    "barker": {"step_size": 0.5},
    "mala": {"step_size": 0.05},
    "multinomial_hmc": {"step_size": 0.3, "num_integration_steps": 3},
    "normal_random_walk": {"sigma": 0.3},
    "nuts": {"step_size": 0.3, "max_num_doublings": 2},
}


def config_of(**overrides):
    config = jem_digits.get_config("hmc")
    config.sampler.name = "blackjax"
    config.update_from_flattened_dict(
        {f"sampler.blackjax.{name}": value for name, value in overrides.items()}
    )
    return config


def normal(x):
    return -0.5 * jnp.sum(x**2)


def kernel(name, num_coordinates):
    options = {"temperature": TEMPERATURE, "num_coordinates": num_coordinates}
    return blackjax_kernel(normal, kernel=name, options=OPTIONS[name], **options)


def refused(config):
    check(config.sampler, [parts.sampler(config)])


@pytest.mark.parametrize("name", KERNELS)
def test_the_chains_of_a_kernel_keep_its_tempered_density(name):
    """Images of 3 pixels from N(0, 0.25), 10 moves: all move, and the variance stays."""
    chain = kernel(name, 3)
    starts = TEMPERATURE**0.5 * jax.random.normal(jax.random.key(0), (1000, 3, 1, 1))

    @jax.jit
    def run(starts):
        step = samplers.batch_step(chain.step)
        return samplers.run_chain(jax.random.key(1), jax.vmap(chain.init)(starts), step, 10)[0]

    ends = np.asarray(run(starts).position)
    assert np.mean(np.abs(ends - starts)) > 0.1
    # 3000 numbers of a Gaussian's variance, to 5 standard errors.
    assert np.var(ends) == pytest.approx(TEMPERATURE, rel=5 * math.sqrt(2 / 3000))


def test_a_configuration_hands_its_options_and_temperature_to_the_kernel():
    config = config_of(temperature=TEMPERATURE, kernel="mala", options='{"step_size": 0.05}')
    config.sampler.box = "none"
    key, start = jax.random.key(0), jnp.full((2, 1, 1), 0.3)
    ours = bind_sampler(parts.sampler(config), config.sampler, (2, 1, 1))(normal)
    found, expected = (chain.step(key, chain.init(start))[0] for chain in (ours, kernel("mala", 2)))
    np.testing.assert_array_equal(found.position, expected.position)


def test_hmc_has_the_step_and_the_temperature_of_mala():
    """Not 1, where a density of this scale would be flat to the chains."""
    section = jem_digits.get_config("hmc").sampler
    assert section.hmc.step_size == section.mala.step_size
    assert section.hmc.temperature == section.mala.temperature


@pytest.mark.parametrize("name", ["sgld", "sghmc", "hmc", "diagnostics", "gibbs"])
def test_what_is_no_kernel_of_a_log_density_is_refused(name):
    with pytest.raises(ConfigError, match=r"config.sampler.blackjax.kernel must be one of \['adj"):
        refused(config_of(kernel=name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{"width": 2.0}', r"options has \['width'\]; BlackJAX's nuts takes \['step_size'"),
        ('{"step_size": 0}', "options 'step_size' must be positive and finite, got 0"),
        ('{"step_size": true}', "options 'step_size' must be positive and finite, got True"),
        ('{"max_num_doublings": 1.5}', "'max_num_doublings' must be an integer of at least 1, got"),
        ('{"divergence_threshold": "100"}', "'divergence_threshold' must be a number, finite, got"),
        ('{"divergence_threshold": 1e999}', "'divergence_threshold' must be finite, got inf"),
        ('{"step_size"', "config.sampler.blackjax.options must be a JSON object"),
    ],
)
def test_options_that_a_kernel_does_not_take_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        refused(config_of(kernel="nuts", options=options))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_takes_its_defaults(name):
    refused(config_of(kernel=name))


def test_an_option_beyond_the_defaults_is_passed_on():
    threshold = '{"divergence_threshold": -1e9}'  # below any change of energy
    config = config_of(kernel="nuts", options=threshold)
    nuts = bind_sampler(parts.sampler(config), config.sampler, (2, 1, 1))(normal)
    _, info = nuts.step(jax.random.key(0), nuts.init(jnp.zeros((2, 1, 1))))
    assert info.is_divergent


def test_a_run_tells_first_that_blackjax_is_missing(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = jem_digits.get_config()
    joint_checks.check(config)
    config.sampler.name = "blackjax"
    with pytest.raises(ConfigError, match="needs BlackJAX, which is not installed: pip"):
        joint_checks.check(config)
