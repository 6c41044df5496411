"""Tests a joint model's chains at the ends of their box."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.learning._models import ChainDensity
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.joint import checks as joint_checks
from ebmjax.recipes.models.joint import parts
from ebmjax.recipes.parts.samplers import SAMPLERS, check
from ebmjax.recipes.parts.samplers.bind import bind_sampler as bind
from ebmjax.samplers import start_chain
from experiments.configs import jem_digits


def bound(name, box, density):
    config = jem_digits.get_config("smoke")
    config.sampler.update(name=name, box=box, low=-0.5, high=0.5)
    chosen = parts.sampler(config)
    check(config.sampler, [chosen])
    return bind(chosen, config.sampler)(density)


# One step of 1 uphill from 0.4 is at 0.7: over the wall by 0.2, give or take noise of 0.01.
@pytest.mark.parametrize(("box", "expected"), [("none", 0.7), ("clamp", 0.5), ("reflect", 0.3)])
def test_where_a_step_over_the_wall_ends(box, expected):
    chain = bound("sgld", box, lambda x: 0.3 * jnp.sum(x))
    state, _ = chain.step(jax.random.key(0), chain.init(jnp.full((2,), 0.4)))
    np.testing.assert_allclose(state.position, expected, atol=5 * 0.01)


@pytest.mark.parametrize(
    "name", ["sgld", "proximal_sgld", "psgld", "svgd", "adaptive_svgd", "stochastic_svgd"]
)
def test_a_sampler_that_never_rejects_cannot_stay_in_a_box_that_rejects(name):
    with pytest.raises(ConfigError, match=rf"box='reject' .* \['{name}'\] never take one back"):
        bound(name, "reject", jnp.sum)


@pytest.mark.parametrize("name", ["mala", "tempered_mala", "hmc"])
def test_a_box_that_rejects_takes_back_what_leaves_it(name):
    """Uphill at a slope of 1e4 every move from 0.49 leaves [-0.5, 0.5]."""
    chain = bound(name, "reject", lambda x: 1e4 * jnp.sum(x))
    start = jnp.full((2,), 0.49)
    for key in jax.random.split(jax.random.key(0), 5):
        state, _ = chain.step(key, chain.init(start))
        np.testing.assert_array_equal(state.position, start)


@pytest.mark.parametrize("box", ["clamp", "reflect"])
@pytest.mark.parametrize("name", sorted(SAMPLERS.keys() - {"pyld"}))
def test_the_box_knows_every_field_of_every_state(name, box):
    config = jem_digits.get_config("smoke")
    config.sampler.update(name=name, box=box, low=-0.5, high=0.5)
    chain = bind(parts.sampler(config), config.sampler)(jnp.sum)
    start = jnp.zeros((3, 2) if SAMPLERS[name].interacting else (2,))
    state = jax.eval_shape(partial(start_chain, jax.random.key(1), chain), start)
    assert jax.eval_shape(chain.step, jax.random.key(0), state)[0] == state


@pytest.mark.parametrize("box", ["reflect", "reject"])
def test_pyld_has_a_box_of_its_own(box):
    density = ChainDensity(jnp.sum, first_layer=lambda x: x, head=jnp.sum)
    with pytest.raises(ConfigError, match=f"config.sampler.box='{box}' is none that 'pyld'"):
        bound("pyld", box, density)


@pytest.mark.parametrize(
    ("start", "scale", "where"),
    [
        ("uniform", 1.3, r"within \[-1.3, 1.3\]"),
        ("gaussian", 0.1, "anywhere"),
        ("informative", 0.1, r"within \[-1, 1\]"),
    ],
)
def test_chains_that_start_outside_of_a_box_that_rejects_are_refused(start, scale, where):
    """There the density is zero: none would ever move."""
    high = 0.9 if start == "informative" else 1.2
    config = jem_digits.get_config("mala")
    config.sampler.buffer.update(start=start, start_scale=scale)
    config.sampler.update(low=-1.2, high=high)
    with pytest.raises(ConfigError, match=f"start='{start}' starts them {where}"):
        joint_checks.check(config)
    config.sampler.update(name="sgld", box="clamp")  # whose starts are moved to the walls
    joint_checks.check(config)


@pytest.mark.parametrize(("start", "scale"), [("uniform", 1.2), ("informative", 9.0)])
def test_starts_may_reach_to_the_walls(start, scale):
    config = jem_digits.get_config("mala")
    config.sampler.buffer.update(start=start, start_scale=scale)
    joint_checks.check(config)
