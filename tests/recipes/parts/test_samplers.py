"""The one table of samplers, and that every family draws on it by the same rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import image
from ml_collections import ConfigDict

from ebmjax import data
from ebmjax import samplers as library
from ebmjax.learning import init_carry
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.comparison import SETTINGS
from ebmjax.recipes.models.energy import checks as image_checks
from ebmjax.recipes.models.energy import parts as image_parts
from ebmjax.recipes.models.latent import parts as latent_parts
from ebmjax.recipes.parts.samplers import (
    PLAIN,
    SAMPLERS,
    SINGLE,
    TILTING,
    Chosen,
    bind_sampler,
    check,
    defaults,
    temperature,
)
from experiments.configs import jem_digits, thermo_digits, toy_beta

FAMILIES = {
    "joint": jem_digits.get_config,
    "energy": image,
    "latent": thermo_digits.get_config,
    "points": toy_beta.get_config,
}


def set_up(family, name, **fields):
    """A configuration of the family with this sampler, checked."""
    config = FAMILIES[family]("smoke")
    config.sampler.name, section = name, f"sampler.{'prior' if family == 'latent' else name}"
    config.update_from_flattened_dict({f"{section}.{k}": v for k, v in fields.items()})
    families.check(config)
    return config


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_row_makes_its_sampler_from_its_fields(name):
    """Bound at the defaults and traced: a field that the sampler does not take would be refused."""
    chosen = Chosen(name, defaults(name), SAMPLERS[name])
    make = bind_sampler(chosen, ConfigDict({"box": "none"}))

    def density(x):
        return -0.5 * jnp.sum(x**2)

    if chosen.entry.needs == "first_layer":
        density.first_layer, density.head = lambda x: x, density
    sampler, start = make(density), jnp.ones((3, 2) if chosen.entry.interacts else (2,))
    state, info = jax.eval_shape(
        lambda key, x: sampler.step(key, library.start_chain(library.start_key(key), sampler, x)),
        jax.random.key(0),
        start,
    )
    assert library.position_of(state).shape == start.shape
    assert set(library.memory_of(state, chosen.entry.memory)) == set(chosen.entry.memory)
    if chosen.entry.rejects:
        assert any(
            hasattr(info, field)
            for field in ("is_accepted", "is_swapped", "is_diverging", "acceptance_rate")
        )


FIELDS = [(name, field) for name, entry in SAMPLERS.items() for field in entry.fields]


def draws(name, **options):
    """Twenty moves of a chain, or of three particles, on a Gaussian."""
    density = lambda x: -0.5 * jnp.sum(x**2)  # noqa: E731
    density.first_layer, density.head = lambda x: 2.0 * x, lambda z: density(z / 2.0)
    make = bind_sampler(
        Chosen(name, defaults(name) | options, SAMPLERS[name]), ConfigDict({"box": "none"})
    )
    start = jnp.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]])
    start = start if SAMPLERS[name].interacts else start[0]
    sampler = make(density)
    state = library.start_chain(jax.random.key(0), sampler, start)
    return library.run_chain(jax.random.key(1), state, sampler.step, 20)[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_field_of_a_sampler_changes_its_draws(name, field):
    """Steps are so large that moves are taken back, drifts are clipped and temperatures rise."""
    given = {"step_size": 1.5, "bandwidth": 1.0, "temperature": 1.0, "acceptance_threshold": 0.9}
    if "noise_scale" in SAMPLERS[name].fields:
        of_noise = {"noise_scale": 0.1, "temperature": None}
        given |= {"noise_scale": None} if field == "temperature" else of_noise
    given = {k: v for k, v in given.items() if k in SAMPLERS[name].fields}
    value = (defaults(name) | given)[field]
    other = value + 1 if isinstance(value, int) else 0.5 * value + 0.01
    first, second = (draws(name, **given | change) for change in ({}, {field: other}))
    assert np.isfinite(first).all()
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("family", ["joint", "energy"])
def test_the_buffer_keeps_the_velocity_that_the_row_names(family):
    """Underdamped Langevin dynamics moves images by the step and the temperature of SGLD."""
    config = set_up(family, "underdamped_langevin")
    section, sgld = config.sampler.underdamped_langevin, config.sampler.sgld
    assert section.step_size == sgld.step_size == 1.0
    assert section.temperature == pytest.approx(sgld.noise_scale**2 / (2 * sgld.step_size))
    plan = image_parts.chain_plan(config, data.load_digits("train"))
    carry = init_carry(jax.random.key(0), plan, num_shards=1, buffer_size=200)
    rows = carry.buffer.positions
    assert rows.position.shape == rows.memory["velocity"].shape == (1, 200, 8, 8, 1)


def test_each_family_has_the_samplers_that_can_move_its_chains():
    assert {name for name in SAMPLERS if name in jem_digits.get_config().sampler} == set(SAMPLERS)
    assert {name for name in SAMPLERS if name in image().sampler} == set(PLAIN | TILTING)
    assert set(SETTINGS["tuned"]) <= set(PLAIN)
    assert not {"svgd", "stochastic_svgd", "pyld"} & set(SINGLE)


@pytest.mark.parametrize("family", ["joint", "energy", "points"])
def test_a_noise_takes_the_place_of_the_temperature(family):
    config = set_up(family, "sgld", noise_scale=0.1, step_size=0.5, temperature=3.0)
    families.prune(config)
    assert "temperature" not in config.sampler.sgld
    assert temperature(image_checks.find_samplers(config)["sgld"]) == pytest.approx(0.01)
    config = set_up(family, "sgld", noise_scale=None, temperature=3.0)
    families.prune(config)
    assert "noise_scale" not in config.sampler.sgld
    assert temperature(image_checks.find_samplers(config)["sgld"]) == 3.0


def moves_of(family, name, density, **fields):
    if name == "sgld" and family != "latent":
        fields["noise_scale"] = None
    config = set_up(family, name, **fields)
    if family == "latent":
        chosen = latent_parts.sampler(config, "prior")
    else:
        chosen, config.sampler.box = image_checks.find_samplers(config)[name], "none"
    sampler = bind_sampler(chosen, config.sampler)(density)
    keys = jax.random.split(jax.random.key(0), 4)
    state = sampler.init(jnp.array([0.3, -0.2]))
    return np.asarray(jax.vmap(lambda key: sampler.step(key, state)[0].position)(keys))


@pytest.mark.parametrize("name", ["sgld", "mala"])
def test_step_and_temperature_mean_the_same_in_every_family(name):
    """The temperature 0.2 beside a step of 0.1 is a noise of 0.2."""
    fields = {"step_size": 0.1, "temperature": 0.2**2 / (2 * 0.1)}
    density = lambda x: -3.0 - 0.5 * jnp.sum(x**2)  # noqa: E731
    make = library.sgld if name == "sgld" else library.mala
    target = {} if name == "sgld" else {"temperature": 0.2}
    expected = make(density, step_size=0.1, noise_scale=0.2, **target)
    state = expected.init(jnp.array([0.3, -0.2]))
    keys = jax.random.split(jax.random.key(0), 4)
    expected = jax.vmap(lambda key: expected.step(key, state)[0].position)(keys)
    found = [moves_of(family, name, density, **fields) for family in FAMILIES]
    for moved in found:
        np.testing.assert_allclose(moved, found[0], rtol=1e-6)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


def test_a_box_that_rejects_needs_a_sampler_that_rejects():
    """Beside one that does, the others are projected."""
    buffer = {"start": "uniform", "start_scale": 0.5}
    box = {"box": "reject", "low": -0.5, "high": 0.5}
    section = ConfigDict({**box, "num_samples": 2, "buffer": buffer})
    sgld, mala = (Chosen(name, defaults(name), SAMPLERS[name]) for name in ("sgld", "mala"))
    with pytest.raises(ConfigError, match=r"box='reject' .* \['sgld'\] never take one back"):
        check(section, [sgld])
    check(section, [sgld, mala])
    sure = mala._replace(entry=mala.entry._replace(rejects=False))
    with pytest.raises(ConfigError, match=r"\['mala'\] never take one back"):
        check(section, [sure])
    for chosen, expected in ((sgld, 0.5), (mala, 0.45)):
        sampler = bind_sampler(chosen, section)(lambda x: 1e4 * jnp.sum(x))
        state, _ = sampler.step(jax.random.key(0), sampler.init(jnp.full((1,), 0.45)))
        np.testing.assert_allclose(state.position, expected, rtol=1e-6)
