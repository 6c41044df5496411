"""R-hat and effective sample size against arviz-stats, and where they are known."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

from ebmjax.metrics import effective_sample_size, potential_scale_reduction
from ebmjax.samplers import batch_step, run_chain

NUM_CHAINS = 4
CASES = ("iid", "sticky", "antithetic", "trend", "shifted", "scaled", "cauchy", "tied")
scale_reduction = jax.jit(potential_scale_reduction, static_argnames="method")
sample_size = jax.jit(effective_sample_size)


def autoregressive(rng, correlation, shape):
    """Stationary AR(1) along axis 1 with unit variance."""
    noise = rng.normal(size=shape)
    draws = noise.copy()
    for t in range(1, shape[1]):
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return draws


def make_draws(num_draws):
    """``(chains, draws, cases)``, on a grid of 2^-10."""
    rng = np.random.default_rng(0)
    shape = (NUM_CHAINS, num_draws)
    chain = np.arange(NUM_CHAINS)[:, None]
    draws = [
        rng.normal(size=shape),
        autoregressive(rng, 0.9, shape),
        autoregressive(rng, -0.6, shape),
        rng.normal(size=shape) + np.linspace(0, 3, num_draws),
        rng.normal(size=shape) + chain,
        rng.normal(size=shape) * np.where(chain == 0, 4, 1),
        np.clip(rng.standard_cauchy(shape), -4000, 4000),
        np.round(rng.normal(size=shape)),
    ]
    return np.round(np.stack(draws, axis=-1) * 1024) / 1024


def oracle(statistic, draws, **kwargs):
    with np.errstate(all="ignore"):
        return statistic(draws, chain_axis=0, draw_axis=1, **kwargs)


def assert_scale_reduction(got, expected, dtype):
    """Rounding moves the chains' variance by a few eps of the mean square, which is R-hat^2 of it.

    16 eps: ndtri, two sums, one quotient, a few eps each.
    """
    tolerance = 16 * np.finfo(dtype).eps * expected**2
    np.testing.assert_array_less(np.abs(np.asarray(got) / expected - 1), tolerance)


def assert_sample_size(got, expected, shape, dtype):
    """Each of at most n lags carries an FFT's error, 8 eps log2(2 n), and counts twice in tau."""
    half = shape[1] // 2
    tau_error = 2 * half * 8 * np.finfo(dtype).eps * np.log2(2 * half)
    tolerance = tau_error * expected / (shape[0] * shape[1])
    np.testing.assert_array_less(np.abs(np.asarray(got) / expected - 1), tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_draws", "dtype"),
    [(251, "float32"), (250, "float64"), (251, "float64"), (7, "float64"), (6, "float64")],
)
def test_agrees_with_arviz(num_draws, dtype):
    draws = make_draws(num_draws)
    if num_draws < 10:
        draws = draws[..., :-1]  # so few rounded draws leave no tail, which arviz counts as exact
    with jax.enable_x64(dtype == "float64"):
        chains = jnp.asarray(draws, dtype)
        got = {method: scale_reduction(chains, method=method) for method in ("rank", "classic")}
        size = sample_size(chains)
    assert got["rank"].dtype == size.dtype == dtype
    assert_scale_reduction(got["rank"], oracle(array_stats.rhat, draws), dtype)
    assert_scale_reduction(
        got["classic"], oracle(array_stats.rhat, draws, method="identity"), dtype
    )
    assert_sample_size(size, oracle(array_stats.ess, draws), draws.shape, dtype)


def test_only_the_rank_method_sees_a_shared_trend_and_a_different_scale():
    draws = make_draws(250)
    rank, classic = scale_reduction(draws), scale_reduction(draws, method="classic")
    for case in ("trend", "scaled"):
        assert classic[CASES.index(case)] < 1.01 < 1.1 < rank[CASES.index(case)]
    assert rank[CASES.index("iid")] < 1.01


@pytest.mark.slow
def test_chains_that_stand_still():
    equal = jnp.full((NUM_CHAINS, 100), 0.1)
    apart = equal * jnp.arange(1.0, NUM_CHAINS + 1)[:, None]
    for method in ("rank", "classic"):
        assert jnp.isnan(scale_reduction(equal, method=method))
        assert scale_reduction(apart, method=method) == jnp.inf
    assert jnp.isnan(sample_size(equal))
    # Full correlation at all lags: 23 whole pairs of 2 and half a pair, tau = -1 + 2 * 46 + 1.
    assert float(sample_size(apart)) == pytest.approx(400 / 92, rel=1e-5)


@pytest.mark.parametrize("num_still", [1, NUM_CHAINS - 1])
def test_some_chains_that_stand_still_leave_nothing_known(num_still):
    """They share the others' mean, and would raise the sample size above the number of draws."""
    draws = jnp.asarray(make_draws(100))[..., 0]
    still = draws.at[:num_still].set(jnp.mean(draws[num_still:]))
    for method in ("rank", "classic"):
        assert jnp.isnan(scale_reduction(still, method=method))
    assert jnp.isnan(sample_size(still))
    hardly = still.at[:num_still, 50:].add(1e-3)  # one move each is a variance
    assert jnp.isfinite(scale_reduction(hardly, method="classic"))


def test_two_values_fold_onto_one_and_leave_the_bulk():
    signs = jnp.tile(jnp.array([-1.0, 1.0, 1.0, -1.0]), (NUM_CHAINS, 25))
    expected = oracle(array_stats.rhat, np.asarray(signs), method="z_scale")
    assert_scale_reduction(scale_reduction(signs), expected, "float32")
    apart = jnp.broadcast_to(jnp.array([[-1.0], [1.0]]), (2, 100))
    assert scale_reduction(apart) == jnp.inf


def test_nan_stays_in_its_coordinate():
    draws = jnp.asarray(make_draws(251))
    broken = draws.at[0, 125, 1].set(jnp.nan)  # the middle draw, which splitting leaves out
    for diagnostic in (scale_reduction, sample_size):
        whole, got = diagnostic(draws), diagnostic(broken)
        assert np.isnan(got).tolist() == [case == 1 for case in range(len(CASES))]
        np.testing.assert_array_equal(np.delete(got, 1), np.delete(whole, 1))
    assert np.isnan(scale_reduction(broken, method="classic")[1])


def test_an_infinite_draw_ranks_as_extreme():
    draws = jnp.asarray(make_draws(250))[..., 0]
    infinite, huge = draws.at[0, 3].set(jnp.inf), draws.at[0, 3].set(1e30)
    assert scale_reduction(infinite) == scale_reduction(huge)
    assert sample_size(infinite) == sample_size(huge)
    assert jnp.isnan(scale_reduction(infinite, method="classic"))


class Place(NamedTuple):
    position: dict


def stay(key, state):
    """One step of a chain that hardly leaves its start."""
    near = 1e-3 * jax.random.normal(key, (2,))
    return Place({"x": state.position["x"] + near, "y": near[0]}), None


def test_what_run_chain_returns_goes_in_as_it_is():
    """4 stuck chains of 250 draws: worth about a draw each, to us and to ArviZ, leaf by leaf."""
    states = Place({"x": jnp.arange(8.0).reshape(4, 2), "y": jnp.zeros(4)})
    _, draws, _ = run_chain(jax.random.key(0), states, batch_step(stay), 250)
    found = sample_size(draws)["x"], scale_reduction(draws)["x"]
    options = {"chain_axis": 0, "draw_axis": 1}
    x = np.asarray(draws["x"], np.float64)
    np.testing.assert_allclose(found[0], array_stats.ess(x, **options), rtol=1e-2)
    np.testing.assert_allclose(found[1], array_stats.rhat(x, **options), rtol=1e-2)
    assert np.all(found[0] < 8)
    assert sample_size(draws)["y"] == sample_size(draws["y"])


every_diagnostic = pytest.mark.parametrize(
    "diagnose",
    [
        potential_scale_reduction,
        partial(potential_scale_reduction, method="classic"),
        effective_sample_size,
    ],
)


@every_diagnostic
def test_draws_before_chains_are_refused(diagnose):
    swapped = jnp.asarray(make_draws(50)[..., 0]).T
    with pytest.raises(ValueError, match=r"got 50 chains of 4 draws.*swap.*allow_few_draws=True"):
        diagnose(swapped)
    jax.eval_shape(partial(diagnose, allow_few_draws=True), swapped)
    jax.eval_shape(diagnose, swapped.T)


@every_diagnostic
@pytest.mark.parametrize("place", [1e8, -1e12])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_draws_far_from_zero_are_diagnosed_as_those_near_it(
    diagnose: Any, place: float, dtype: Any
) -> None:
    """Each coordinate about a place of its own; differences of the draws are exact in float64."""
    near = np.round(1e3 * np.random.default_rng(0).normal(size=(4, 100, 2)))
    scale = 1 if dtype == np.int64 else 1024
    far = (near / scale + np.array([place, 0.0])).astype(dtype)
    found, expected = diagnose(far), diagnose(near / scale)
    assert np.all(np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # sums of 400 float32 numbers of order 1
    # One draw of a coordinate is infinite: the others keep their ranks.
    far, near = far.astype(float), near / scale
    far[0, 3, 0] = near[0, 3, 0] = np.inf
    np.testing.assert_allclose(diagnose(far), diagnose(near), rtol=1e-5)
