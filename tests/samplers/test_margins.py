"""Histograms of pixels: the maps to normal variables, and tilted Gaussians behind them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from ebmjax.samplers import (
    FactorGaussian,
    fit_factor_gaussian,
    fit_margins,
    tilted_langevin,
)

RNG = np.random.default_rng(0)
LEVELS = np.stack([RNG.choice([0, 0, 0, 90, 200, 255], 2000), RNG.integers(20, 230, 2000)], axis=1)
X = np.float32((LEVELS + RNG.random(LEVELS.shape)) / 128 - 1)
MARGINS = fit_margins(X)


def test_the_map_and_its_inverse_agree_and_the_slope_is_the_derivative():
    x = jnp.asarray(X[:200])
    g, slopes = jax.vmap(MARGINS.gaussianise)(x)
    np.testing.assert_allclose(jax.vmap(MARGINS.restore)(g), x, atol=1e-4)
    derivative = jax.vmap(jax.jacobian(lambda x: MARGINS.gaussianise(x)[0]))(x)
    found = jnp.log(jnp.diagonal(derivative, axis1=1, axis2=2))
    np.testing.assert_allclose(found, slopes, atol=2e-2)


def test_black_pixels_have_the_density_of_their_level():
    """Half of the first pixels are black: 1/2 over a level of 2/256."""
    g, slopes = MARGINS.gaussianise(jnp.array([-0.995, 0.0]))
    share = np.mean(LEVELS[:, 0] == 0)
    expected = np.log(share * 128)
    assert float(slopes[0] + norm.logpdf(g[0])) == pytest.approx(expected, abs=1e-3)


def test_ends_of_the_range_count_as_the_middle_of_the_outer_levels():
    ends, middles = (jax.vmap(MARGINS.gaussianise)(jnp.array(x)) for x in (
        [[-1.0, -2.0], [1.0, 1.5]], [[-1 + 1 / 256] * 2, [1 - 1 / 256] * 2]))  # fmt: skip
    np.testing.assert_allclose(ends[0], middles[0])


def test_data_become_normal():
    """A mean within 5 standard errors of 0, and a variance within 5 of 1."""
    g = np.asarray(jax.vmap(MARGINS.gaussianise)(jnp.asarray(X))[0])
    assert np.all(np.abs(g.mean(axis=0)) < 5 / np.sqrt(2000))
    assert np.all(np.abs(g.var(axis=0) - 1) < 5 * np.sqrt(2 / 2000))


def mixture() -> FactorGaussian:
    g = np.asarray(jax.vmap(MARGINS.gaussianise)(jnp.asarray(X))[0])
    labels = (g[:, 0] > 0.5).astype(int)
    fitted = fit_factor_gaussian(g, labels, num_directions=1, jitter=0.01)
    return fitted._replace(margins=MARGINS)


def test_the_density_of_a_mixture_behind_margins_integrates_to_one():
    """Importance sampling by the histograms alone; 5 standard errors."""
    base = mixture()
    draws = jax.vmap(MARGINS.restore)(jax.random.normal(jax.random.key(0), (20_000, 2)))
    g, slopes = jax.vmap(MARGINS.gaussianise)(draws)
    own = jnp.sum(slopes + norm.logpdf(g), axis=1)
    ratio = np.exp(jax.vmap(base.log_density)(draws) - own)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio))


def test_chains_behind_margins_have_the_law_of_the_tilted_gaussian():
    """f tilts pixels, not normal variables; weighted draws of q are the reference."""
    one = mixture().one(0)
    base = FactorGaussian(*(a if a is one.directions else a[None] for a in one[:5]), MARGINS)
    f = lambda x: 1.5 * x[0] - x[1] ** 2  # noqa: E731
    num = 4000
    draw = jax.jit(jax.vmap(base.draw, (0, None)))
    draws = draw(jax.random.split(jax.random.key(1), 40 * num), jnp.int32(0))
    weights = jax.nn.softmax(jax.vmap(f)(draws))
    mean = weights @ draws
    error = jnp.sqrt(weights**2 @ (draws - mean[None]) ** 2)
    sampler = tilted_langevin(f, base=base, step_size=0.4)

    @jax.jit
    def run(key, start):
        state = sampler.init(start)
        step = lambda state, key: (sampler.step(key, state)[0], None)  # noqa: E731
        return jax.lax.scan(step, state, jax.random.split(key, 60))[0].position

    ends = jax.vmap(run)(jax.random.split(jax.random.key(2), num), draws[:num])
    bound = 5 * jnp.sqrt(error**2 + jnp.var(ends, axis=0) / num)
    np.testing.assert_array_less(jnp.abs(ends.mean(axis=0) - mean), bound)
    assert np.any(np.abs(draws.mean(axis=0) - mean) > bound)  # untilted draws would fail
