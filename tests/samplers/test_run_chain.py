"""The drivers: what burn-in and thinning keep, who may be driven, what is refused."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import densities, samplers

TARGET = densities.log_gamma(jnp.array([0.8, 2.5]))
SAMPLER = samplers.mala(TARGET.log_density_fn, step_size=0.5)


def run(num_steps, **options):
    def chain(key, state):
        return samplers.run_chain(key, state, SAMPLER.step, num_steps, **options)

    return jax.jit(chain)(jax.random.key(0), SAMPLER.init(jnp.zeros(2)))


def test_a_chain_is_a_loop():
    final, positions, infos = run(12)
    state = SAMPLER.init(jnp.zeros(2))
    step = jax.jit(SAMPLER.step)
    for i, key in enumerate(jax.random.split(jax.random.key(0), 12)):
        state, info = step(key, state)
        # Compiled on its own or within a scan, a step differs by a rounding or two each time.
        np.testing.assert_allclose(positions[i], state.position, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            infos.acceptance_prob[i], info.acceptance_prob, rtol=1e-5, atol=1e-6
        )
    chex.assert_trees_all_close(final, state, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("burn_in", "thinning"), [(0, 1), (5, 1), (0, 3), (4, 3), (3, 7), (11, 2), (10, 5)]
)
def test_burn_in_and_thinning_only_choose(burn_in, thinning):
    """The kept draws are those of the full run, bit for bit, and the leftover steps are taken."""
    num_steps = 12
    final, everything, all_infos = run(num_steps)
    kept_final, positions, infos = run(num_steps, burn_in=burn_in, thinning=thinning)
    assert len(positions) == (num_steps - burn_in) // thinning
    kept = slice(burn_in + thinning - 1, None, thinning)
    np.testing.assert_array_equal(positions, everything[kept])
    chex.assert_trees_all_equal(infos, jax.tree.map(lambda leaf: leaf[kept], all_infos))
    chex.assert_trees_all_equal(kept_final, final)


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])
def test_a_wrapped_batch_step_is_still_one(wrap):
    states = jax.vmap(SAMPLER.init)(jnp.zeros((5, 2)))
    step = wrap(samplers.batch_step(SAMPLER.step))
    shapes = jax.eval_shape(lambda key: samplers.run_chain(key, states, step, 3), jax.random.key(0))
    assert shapes[1].shape == (5, 3, 2)


def test_a_trace_reports_the_steps_of_the_same_chain():
    start = SAMPLER.init(jnp.array([0.3, -0.2]))
    key = jax.random.key(5)
    state, positions, infos = samplers.run_chain(key, start, SAMPLER.step, 6)
    keys = jax.random.split(key, 6)
    ended, (seen, accepted) = samplers.trace_chain(
        keys,
        start,
        SAMPLER.step,
        lambda state, info: (state.position, samplers.acceptance_of(info)),
    )
    chex.assert_trees_all_equal((ended, seen), (state, positions))
    np.testing.assert_array_equal(accepted, infos.acceptance_prob)
    assert samplers.trace_chain(keys, start, SAMPLER.step)[1] is None


def test_many_chains_and_many_particles():
    states = jax.vmap(SAMPLER.init)(jnp.zeros((5, 2)))
    final, positions, infos = samplers.run_chain(
        jax.random.key(1), states, samplers.batch_step(SAMPLER.step), 6, thinning=2
    )
    np.testing.assert_array_equal(positions[:, -1], final.position)
    assert positions.shape == (5, 3, 2)
    assert infos.is_accepted.shape == (5, 3)
    assert len(np.unique(positions[:, -1, 0])) > 1  # a key of its own for each chain

    particles = samplers.svgd(TARGET.log_density_fn, step_size=0.1)
    state = particles.init(jnp.arange(8.0).reshape(4, 2))
    final, trace, _ = samplers.run_chain(jax.random.key(2), state, particles.step, 3)
    assert trace.shape == (3, 4, 2)
    np.testing.assert_array_equal(trace[-1], samplers.position_of(final))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": 0}, "num_steps must be an integer of at least 1"),
        ({"num_steps": 10, "thinning": 0}, "thinning must be an integer of at least 1"),
        ({"num_steps": 10, "burn_in": 11}, "burn_in must be at most num_steps"),
    ],
)
def test_bad_counts(arguments, message):
    with pytest.raises(ValueError, match=message):
        samplers.run_chain(jax.random.key(0), SAMPLER.init(jnp.zeros(2)), SAMPLER.step, **arguments)


def test_states_without_a_common_leading_axis():
    sampler = samplers.sgld(TARGET.log_density_fn, step_size=0.1)
    with pytest.raises(ValueError, match="states must be arrays that share their leading axis"):
        samplers.batch_step(sampler.step)(jax.random.key(0), sampler.init(jnp.zeros(2)))
    states = jax.vmap(sampler.init)(jnp.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"states\.log_density': 2"):
        samplers.batch_step(sampler.step)(
            jax.random.key(0), states._replace(log_density=states.log_density[:2])
        )


def test_one_key_where_one_a_step_is_wanted():
    """``run_chain`` takes one, so that this mistake is natural."""
    key, state = jax.random.key(0), SAMPLER.init(jnp.zeros(2))
    message = r"keys must be arrays that share their leading axis.*jax\.random\.split\(key, num\)"
    for report in ({}, {"report": lambda state, info: info.log_density}):
        with pytest.raises(ValueError, match=message):
            samplers.trace_chain(key, state, SAMPLER.step, **report)
    with pytest.raises(ValueError, match=message):
        samplers.trace_chain((jnp.arange(3), jax.random.key(0)), state, SAMPLER.step)
