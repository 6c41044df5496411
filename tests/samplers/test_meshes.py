"""Samplers, drivers, wrappers, the replay buffer and the chain metrics on eight devices.

``jax.make_mesh`` makes explicit axes unless it is told otherwise: types then say where arrays lie,
and an operation whose result could lie in several places is refused.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_table import TABLE
from test_contract import SAME_CODE, assert_same_up_to_rounding, start

from ebmjax import samplers


def mesh_of(axis_type):
    axis = getattr(jax.sharding.AxisType, axis_type)
    return jax.make_mesh((8,), ("device",), axis_types=(axis,))


def on_devices(entry, key, positions):
    """Ends of one chain at all ``positions``, of 8 chains at one each, and the latter's draws."""
    one, _, _ = samplers.run_chain(key, entry.sampler.init(positions), entry.sampler.step, 2)
    many = positions
    if entry.has_particles:  # 8 systems of 3 particles
        many = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf, -leaf], 1), positions)
    states = jax.vmap(entry.sampler.init)(many)
    step = samplers.batch_step(entry.sampler.step)
    ends, draws, _ = samplers.run_chain(key, states, step, 3, burn_in=1)
    return samplers.position_of(one), samplers.position_of(ends), draws


ALIKE = {
    "gradient_descent", "sgld_free_noise", "clipped_sgld", "sgld_of_clipped_score",
    "scheduled_sgld", *SAME_CODE,
}  # fmt: skip
"""Rows in which arrays meet in no way of their own: wrappers of functions, for the most part."""
every_way = pytest.mark.parametrize("name", [name for name in TABLE if name not in ALIKE])


def positions_of_chains():
    generator = np.random.default_rng(0)
    shapes = {"vector": (8, 2), "scalar": (8,)}
    return {
        name: jnp.asarray(0.4 * generator.normal(size=shape), jnp.float32)
        for name, shape in shapes.items()
    }


@every_way
def test_positions_on_an_explicit_mesh(name):
    """No operation is refused, and all results lie where the positions do."""
    run = partial(on_devices, TABLE[name])
    with jax.set_mesh(mesh_of("Explicit")):
        spread = jax.device_put(positions_of_chains(), jax.P("device"))
        for leaf in jax.tree.leaves(jax.eval_shape(run, jax.random.key(11), spread)):
            assert leaf.sharding.spec[0] == "device"


# On an automatic mesh the program is that of one device, and the rest is the compiler's work.
NUMBERS = [
    pytest.param("Explicit", name, marks=[pytest.mark.slow] * (name not in ("mala", "svgd")))
    for name in TABLE
    if name not in SAME_CODE
]
NUMBERS += [("Auto", "mala"), pytest.param("Auto", "svgd", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize(("axis_type", "name"), NUMBERS)
def test_numbers_of_eight_devices_are_those_of_one(axis_type, name):
    """One position, or chains, spread over a mesh."""
    run, key = jax.jit(partial(on_devices, TABLE[name])), jax.random.key(11)
    position = positions_of_chains()
    expected = run(key, position)
    with jax.set_mesh(mesh_of(axis_type)):
        found = run(key, jax.device_put(position, jax.P("device")))
        assert_same_up_to_rounding(found, expected)


@every_way
@pytest.mark.parametrize("varies", ["starts", "keys"])
def test_chains_under_shard_map(name, varies):
    """The devices' chains may differ in the start alone, or in the key alone, all checks on."""
    entry = TABLE[name]

    def chain(keys, starts):
        position = jax.tree.map(lambda leaf: leaf[0], starts)
        state, step = entry.sampler.init(position), entry.sampler.step
        one = samplers.run_chain(keys[0], state, step, 3, burn_in=1)[1]
        states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
        many = samplers.run_chain(keys[0], states, samplers.batch_step(step), 3, thinning=2)[1]
        return jax.tree.map(lambda leaf: leaf[None], (one, many))

    rows, whole = jax.P("device"), jax.P()
    in_specs = (whole, rows) if varies == "starts" else (rows, whole)
    mapped = jax.shard_map(chain, mesh=mesh_of("Auto"), in_specs=in_specs, out_specs=rows)
    starts = jax.tree.map(lambda leaf: jnp.stack([leaf] * 8), start(entry))
    keys = jax.random.split(jax.random.key(0), 8)
    shapes = jax.eval_shape(mapped, keys, starts)
    assert all(leaf.shape[0] == 8 for leaf in jax.tree.leaves(shapes))


KEY, LAW = jax.random.key(1), samplers.uniform_start((2,), -1.0, 1.0)
PLACES = {"whole": jax.P(), "rows": jax.P("device"), "columns": jax.P(None, "device")}


@pytest.mark.parametrize("of_slots", ["whole", "rows"])
@pytest.mark.parametrize("of_positions", PLACES)
@pytest.mark.parametrize("of_buffer", PLACES)
def test_a_buffer_takes_positions_from_wherever_they_are(of_buffer, of_positions, of_slots):
    """And stays where it is; by JAX's own rules writes of other places are refused."""
    buffer = samplers.ReplayBuffer(jnp.zeros((16, 8)))
    slots, positions = jnp.arange(8)[::-1], jnp.arange(64.0).reshape(8, 8)
    expected = samplers.replay_buffer_write(buffer, slots, positions).positions
    with jax.set_mesh(mesh_of("Explicit")):
        buffer = jax.device_put(buffer, PLACES[of_buffer])
        slots = jax.device_put(slots, PLACES[of_slots])
        positions = jax.device_put(positions, PLACES[of_positions])
        for write in (samplers.replay_buffer_write, jax.jit(samplers.replay_buffer_write)):
            found = write(buffer, slots, positions).positions
            np.testing.assert_array_equal(found, expected)
            assert jax.typeof(found).sharding == jax.typeof(buffer.positions).sharding
            draw = samplers.replay_buffer_draw(
                KEY, samplers.ReplayBuffer(found), 8, samplers.uniform_start((8,), -1.0, 1.0),
                labels=0 * slots, reinit_prob=0.5,
            )  # fmt: skip
            assert draw.positions.shape == (8, 8)
            kept = samplers.select_particles(KEY, positions, jnp.sum(positions, axis=1), 4)
            assert kept.shape == (4, 8)
