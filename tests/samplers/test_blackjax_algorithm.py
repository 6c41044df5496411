"""BlackJAX's adaptation on our samplers, and its NUTS and MCLMC under our drivers."""

from functools import partial

import blackjax
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers

SCALES = jnp.array([0.1, 1.0, 10.0])
KEY = jax.random.key(0)


def log_density_fn(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2)


def test_a_kernel_makes_the_moves_of_mala():
    """Its step of each coordinate is the product of step size and matrix."""
    algorithm = samplers.blackjax_algorithm(partial(samplers.mala, temperature=2.0))
    matrix, start = SCALES**2, jnp.array([0.1, -0.5, 3.0])
    state = algorithm.init(start, log_density_fn)
    moved, info = algorithm.build_kernel()(KEY, state, log_density_fn, 0.7, matrix)
    plain = samplers.mala(log_density_fn, step_size=0.7 * matrix, temperature=2.0)
    expected, expected_info = plain.step(KEY, plain.init(start))
    chex.assert_trees_all_equal(moved.inner, expected)
    np.testing.assert_array_equal(moved.position, expected.position)
    np.testing.assert_array_equal(moved.logdensity_grad, expected.score)
    np.testing.assert_array_equal(info.acceptance_rate, expected_info.acceptance_prob)
    sampler = algorithm(log_density_fn, step_size=0.7, inverse_mass_matrix=matrix)
    chex.assert_trees_all_equal(sampler.step(KEY, sampler.init(start)), (expected, expected_info))


def test_scores_are_found_below_wrappers_and_in_trees():
    make = samplers.schedule(samplers.clamp(samplers.mala, -1.0, 1.0))
    algorithm = samplers.blackjax_algorithm(make)

    def log_density(x):
        return log_density_fn(jnp.concatenate([x["a"], x["b"]]))

    state = algorithm.init({"a": jnp.ones(1), "b": jnp.ones(2)}, log_density)
    moved, _ = algorithm.build_kernel()(KEY, state, log_density, 0.1, jnp.ones(3))
    assert jax.tree.map(jnp.shape, moved.logdensity_grad) == {"a": (1,), "b": (2,)}


def test_a_dense_matrix_is_refused():
    sampler = samplers.blackjax_algorithm(samplers.mala)(
        log_density_fn, step_size=0.1, inverse_mass_matrix=jnp.eye(3)
    )
    with pytest.raises(ValueError, match=r"shape \(3,\); got shape \(3, 3\).*diagonal=True"):
        sampler.init(jnp.zeros(3))


@pytest.mark.slow
def test_window_adaptation_of_blackjax_runs_on_our_mala():
    algorithm = samplers.blackjax_algorithm(samplers.mala)
    adaptation = blackjax.window_adaptation(algorithm, log_density_fn, target_acceptance_rate=0.574)
    (state, parameters), _ = adaptation.run(KEY, jnp.ones(3), num_steps=1000)
    # Coordinates decorrelate in about 5 steps; the last window has 500 steps.
    error = abs(jnp.log(parameters["inverse_mass_matrix"] / SCALES**2))
    np.testing.assert_array_less(error, 5 * np.sqrt(2 / 100))
    sampler = algorithm(log_density_fn, **parameters)
    start = sampler.init(state.position)
    _, _, infos = samplers.run_chain(KEY, start, sampler.step, 1000)
    # BlackJAX's last phase of 50 steps leaves the acceptance to about 0.1.
    assert float(infos.acceptance_prob.mean()) == pytest.approx(0.574, abs=0.12)
