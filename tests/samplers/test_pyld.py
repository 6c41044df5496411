"""PYLD: a reference written out, its limits, its refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_moments, run_replicas

from ebmjax.samplers import pyld, pyld_init, sgld

WEIGHTS = np.array([[0.8, -0.3], [0.5, 1.1], [-0.7, 0.4]])
START = np.array([0.6, -0.5])
KEY = jax.random.key(0)


def linear(x):
    return jnp.asarray(WEIGHTS, x.dtype) @ x


def curved(x):
    return jnp.tanh(linear(x))


def head(hidden):
    return jnp.sum(1.5 * hidden - jnp.exp(hidden))


def log_density(x):
    return head(curved(x))


def reference(
    x,
    is_curved,
    num_steps,
    *,
    step_size,
    num_inner,
    max_score=np.inf,
    outer_step_size=0.0,
    low=-np.inf,
    high=np.inf,
):
    """The noiseless chain in float64, derivatives by hand."""

    def score_with(cotangent, x):
        slope = 1.0 - np.tanh(WEIGHTS @ x) ** 2 if is_curved else np.ones(3)
        return WEIGHTS.T @ (slope * cotangent)

    for _ in range(num_steps):
        hidden = np.tanh(WEIGHTS @ x) if is_curved else WEIGHTS @ x
        cotangent = 1.5 - np.exp(hidden)
        x = x + outer_step_size * score_with(cotangent, x)
        for _ in range(num_inner):
            score = np.clip(score_with(cotangent, x), -max_score, max_score)
            x = np.clip(x + step_size * score, low, high)
    return x


FORMS = {
    "plain": {"step_size": 0.2, "num_inner": 4},
    "clipped": {"step_size": 0.2, "num_inner": 4, "max_score": 0.3},
    "boxed": {"step_size": 0.2, "num_inner": 4, "low": -0.2, "high": 0.3},
    "code_of_jempp": {
        "step_size": 0.2, "num_inner": 5, "max_score": 1.0, "outer_step_size": 1.0,
        "low": -0.7, "high": 0.7,
    },
}  # fmt: skip


@pytest.mark.parametrize("first_layer", [linear, curved], ids=["linear", "curved"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_chain_is_the_written_out_loop(first_layer, form):
    """In float64: three steps of a few dozen roundings each, on a map that does not stretch
    differences by more than 1e3, leave 1e-11."""
    with jax.enable_x64(True):
        sampler = pyld(first_layer, head, noise_scale=0.0, **form)
        state = sampler.init(jnp.asarray(START))
        step = jax.jit(sampler.step)
        for _ in range(3):
            state, info = step(KEY, state)
        expected = reference(START, first_layer is curved, 3, **form)
        np.testing.assert_allclose(state.position, expected, atol=1e-11)
        assert np.max(np.abs(expected - START)) > 0.1

        # What the next step starts from belongs to where the chain stands.
        hidden = first_layer(state.position)
        np.testing.assert_allclose(state.log_density, head(hidden), rtol=1e-12)
        np.testing.assert_allclose(state.cotangent, 1.5 - np.exp(hidden), rtol=1e-12)
        np.testing.assert_array_equal(info.log_density, state.log_density)


@pytest.mark.parametrize("noise_scale", [None, 0.3, 0.0])
def test_one_inner_move_is_sgld(noise_scale):
    step = jax.jit(pyld(curved, head, step_size=0.2, num_inner=1, noise_scale=noise_scale).step)
    sgld_sampler = sgld(log_density, step_size=0.2, noise_scale=noise_scale)
    sgld_step = jax.jit(sgld_sampler.step)
    position = jnp.asarray(START, jnp.float32)
    state, expected = pyld_init(position, curved, head), sgld_sampler.init(position)
    for key in jax.random.split(KEY, 3):
        state, info = step(key, state)
        expected, sgld_info = sgld_step(jax.random.split(key, 1)[0], expected)
        # A few roundings of numbers of size one.
        np.testing.assert_allclose(state.position, expected.position, atol=1e-6)
        np.testing.assert_allclose(info.log_density, sgld_info.log_density, atol=1e-5)


def test_noise_of_the_inner_moves_adds_up():
    """Linear first layer, frozen score s: N moves end at N(x + N eps s, N sigma^2)."""
    sampler = pyld(linear, head, step_size=0.1, num_inner=3, noise_scale=0.4)
    start = jnp.asarray(START, jnp.float32)
    ends, _ = run_replicas(KEY, sampler, jnp.tile(start, (20_000, 1)), 1)
    score = jax.grad(lambda x: head(linear(x)))(start)
    assert_moments(ends, start + 0.3 * score, 3 * 0.4**2)


def test_bad_functions_and_positions():
    with pytest.raises(ValueError, match=r"^head_fn must return a scalar.*\(3,\)"):
        pyld_init(jnp.zeros(2), curved, jnp.exp)
    with pytest.raises(TypeError, match=r"^position must hold floating-point"):
        pyld_init(jnp.zeros(2, int), curved, head)
    with pytest.raises(TypeError, match=r"^first_layer_fn\(position\) must hold floating-point"):
        pyld_init(jnp.zeros(2), lambda x: x.astype(int), head)


@pytest.mark.parametrize("traced", [False, True])
def test_no_outer_move_leaves_an_infinite_score_to_its_bound(traced):
    def step(outer_step_size):
        sampler = pyld(
            lambda x: x, lambda hidden: -jnp.exp(hidden), step_size=0.5, num_inner=1,
            noise_scale=0.0, max_score=1.0, outer_step_size=outer_step_size,
        )  # fmt: skip
        return sampler.step(KEY, sampler.init(95.0))[0].position  # exp(95) is infinite in float32

    assert float(jax.jit(step)(0.0) if traced else step(0.0)) == 94.5
