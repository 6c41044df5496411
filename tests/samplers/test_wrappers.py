"""Clamping, clipping, schedules: what they do to a step, alone and composed."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmjax import densities
from ebmjax.samplers import (
    clamp,
    clip_drift,
    clip_score,
    gradient_descent,
    mala,
    psgld,
    reflect,
    run_chain,
    schedule,
    sgld,
    sgld_init,
    sgld_step,
    svgd,
    tempered_mala,
)


def pull_to_two(x):
    """Mode at 2, outside the boxes below, so that chains press against the wall."""
    return -0.5 * jnp.sum((x - 2.0) ** 2)


@pytest.mark.parametrize(("wall", "start"), [(clamp, [0.5, -0.5]), (reflect, [0.4, 0.3])])
@pytest.mark.parametrize("make", [sgld, mala, psgld, tempered_mala], ids=lambda make: make.__name__)
def test_walls_keep_chains_in_the_box(make, wall, start):
    sampler = wall(make, -0.5, 0.5)(pull_to_two, step_size=0.2)
    state = sampler.init(jnp.array([0.6, -1.7]))
    np.testing.assert_allclose(state.position, start, rtol=1e-6)
    step = jax.jit(sampler.step)
    touched = False
    for key in jax.random.split(jax.random.key(0), 20):
        state, info = step(key, state)
        assert np.all(np.abs(state.position) <= 0.5)
        touched |= bool(np.any(np.abs(state.position) == 0.5))
        # The state belongs to the place in the box, whose gradient is whole at the wall too.
        np.testing.assert_allclose(state.log_density, pull_to_two(state.position), rtol=1e-6)
        np.testing.assert_allclose(state.score, 2.0 - state.position, rtol=1e-6)
        np.testing.assert_array_equal(info.log_density, state.log_density)
    assert touched == (wall is clamp)


def test_clip_drift_bounds_the_drift():
    """Without noise the move is the drift, proximal SGLD's clip(eps s, -c, c)."""
    sampler = clip_drift(sgld, 0.1)(pull_to_two, step_size=0.5, noise_scale=0.0)
    position = jnp.array([-50.0, 1.95, 2.0, 2.05, 90.0])
    state, _ = sampler.step(jax.random.key(0), sampler.init(position))
    # Positions near 90 are rounded to 4e-6.
    np.testing.assert_allclose(
        state.position - position, [0.1, 0.025, 0.0, -0.025, -0.1], atol=1e-5
    )
    np.testing.assert_allclose(state.log_density, pull_to_two(state.position), rtol=1e-6)


def test_a_scheduled_clip_bounds_every_drift():
    """The score a state carries was clipped for the step size before: by 1 / 0.1 = 10 here."""
    sampler = schedule(clip_drift(gradient_descent, 1.0))(
        pull_to_two, step_size=lambda step: jnp.array([0.1, 1.0, 0.5])[step]
    )
    state = sampler.init(jnp.array([-50.0]))
    moves = []
    for seed in range(3):
        moved, _ = sampler.step(jax.random.key(seed), state)
        moves.append(float((moved.position - state.position)[0]))
        state = moved
    # The last: clipped at 1 / 1.0 by the step before, and half a step long.
    np.testing.assert_allclose(moves, [1.0, 1.0, 0.5], rtol=1e-5)


def chain_end(make, limit):
    """End of three steps from -1 towards 2, under wrappers that ``make`` bounds by ``limit``."""
    sampler = make(limit)(pull_to_two, step_size=0.2, noise_scale=0.0)
    return run_chain(jax.random.key(0), sampler.init(-jnp.ones(1)), sampler.step, 3)[0].position[0]


@pytest.mark.parametrize(
    ("make", "slope"),
    [
        # Stuck at the wall, whose place is the chain's.
        (lambda low: clamp(sgld, low, 5.0), 0.0),
        (lambda high: clamp(sgld, -5.0, high), 1.0),
        (lambda limit: clip_drift(sgld, limit), 3.0),
        (lambda limit: lambda density, **o: sgld(clip_score(density, limit), **o), 0.6),
    ],
    ids=["clamp below", "clamp above", "clip_drift", "clip_score"],
)
def test_bounds_may_be_traced_and_differentiated(make, slope):
    limit = jnp.array({0.0: -4.0, 1.0: -0.5}.get(slope, 0.01))
    end = jax.jit(chain_end, static_argnums=0)
    assert jax.grad(end, argnums=1)(make, limit) == pytest.approx(slope)
    assert jax.grad(lambda limit: jax.checkpoint(partial(end, make))(limit))(limit) == slope


def test_clip_score():
    clipped = clip_score(pull_to_two, 0.3)
    x = jnp.array([-5.0, 1.9, 5.0])
    np.testing.assert_allclose(clipped(x), pull_to_two(x))
    expected = np.clip(2.0 - np.asarray(x), -0.3, 0.3)
    np.testing.assert_allclose(jax.grad(clipped)(x), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(clipped)))(x[:, None])[:, 0], expected)
    # Differentiated once more it is the clip of the gradient: its slope is 1 inside, 0 outside.
    hessian = jax.jacfwd(jax.grad(clipped))(x)
    np.testing.assert_array_equal(hessian, np.diag([0.0, -1.0, 0.0]))
    # The bound itself may be traced, one for each chain too.
    limits = jnp.array([0.1, 0.2])
    scores = jax.vmap(lambda limit: jax.grad(clip_score(pull_to_two, limit))(x))(limits)
    np.testing.assert_allclose(scores[:, 0], limits)


def test_an_annealed_chain_is_a_loop_with_changing_arguments():
    falling = optax.linear_schedule(0.3, 0.05, 4)
    sampler = schedule(sgld)(
        pull_to_two, step_size=falling, noise_scale=lambda step: 0.1 / (1 + step)
    )
    key, num_steps = jax.random.key(2), 6
    state, positions, _ = run_chain(key, sampler.init(jnp.zeros(2)), sampler.step, num_steps)
    expected = sgld_init(jnp.zeros(2), pull_to_two)
    for step, step_key in enumerate(jax.random.split(key, num_steps)):
        expected, _ = sgld_step(
            step_key,
            expected,
            pull_to_two,
            step_size=0.3 - 0.25 * min(step, 4) / 4,
            noise_scale=0.1 / (1 + step),
        )
        np.testing.assert_allclose(positions[step], expected.position, rtol=1e-5)
    assert state.step == num_steps
    chex.assert_trees_all_close(state.inner, expected, rtol=1e-5)


def test_wrappers_compose_in_either_order():
    """The SADA-JEM step (drift clipped to 0.1, box [-1, 1]) with a decaying step size."""
    falling = optax.exponential_decay(0.5, 1, 0.5)
    arguments = {"step_size": falling, "noise_scale": 0.01}
    inside = clamp(schedule(clip_drift(sgld, 0.1)), -1.0, 1.0)(pull_to_two, **arguments)
    outside = schedule(clamp(clip_drift(sgld, 0.1), -1.0, 1.0))(pull_to_two, **arguments)
    key = jax.random.key(4)
    results = [
        jax.jit(lambda key, sampler=sampler: run_chain(
            key, sampler.init(jnp.array([-0.99, 0.98])), sampler.step, 8
        ))(key)
        for sampler in (inside, outside)
    ]  # fmt: skip
    chex.assert_trees_all_close(*results, rtol=1e-6)
    positions = results[0][1]
    assert np.all(np.abs(positions) <= 1)
    assert np.any(positions == 1)
    assert np.all(np.abs(np.diff(positions, axis=0)) <= 0.1 + 5 * 0.01)


THREE, COLUMN = jnp.ones(3), jnp.zeros((3, 1))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (clamp(sgld, -THREE, THREE), "low"),
        (clamp(sgld, -1.0, THREE), "high"),
        (clamp(svgd, -THREE, THREE), "low"),
        (reflect(mala, -THREE, THREE), "low"),
        (clip_drift(sgld, THREE), "max_drift"),
        (lambda f, **options: sgld(clip_score(f, THREE), **options), "max_abs"),
        (lambda f, **options: mala(densities.within_box(f, -THREE, THREE), **options), "low"),
    ],
)
@pytest.mark.parametrize("is_jitted", [False, True])
def test_bounds_of_another_shape_than_the_position(make, name, is_jitted):
    """A row of bounds for a column of coordinates would make a square of it."""
    sampler = make(pull_to_two, step_size=0.1)

    def step(position):
        return sampler.step(jax.random.key(0), sampler.init(position))

    message = rf"^{name} must be a scalar or broadcast to the shape of position, \((3, )?1,?\); got"
    with pytest.raises(ValueError, match=message), jax.disable_jit(not is_jitted):
        jax.jit(step)(COLUMN)
