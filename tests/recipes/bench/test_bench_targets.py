"""Every exact answer of the bench, by a second computation that shares nothing with the first."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from ebmjax.recipes.bench import targets
from ebmjax.recipes.bench.exam import statistics
from ebmjax.recipes.bench.targets import TARGETS, ExactTarget, find


def by_grid(
    target: ExactTarget, *axes: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Returns log Z, mean, variance and masses of modes by sums over a dense grid."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    shares = np.exp(target.log_density(np, points))
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    log_z = float(np.log(shares.sum() * cell))
    shares /= shares.sum()
    mean = shares @ points
    masses = np.ones(1)
    if target.mode_of is not None:
        masses = np.bincount(target.mode_of(points), shares, len(target.masses))
    return log_z, mean, shares @ (points - mean) ** 2, masses


WELLS = (3.0, 0.3, 0.0, [0, 1], 0.6, 0.02)
# Sums over a grid are as good as exact for densities that are smooth and vanish at its ends. A mode
# ends between points, or at one, which costs half a cell there.
GRIDS: dict[str, tuple[Any, list[np.ndarray], float]] = {
    "gaussian": (lambda: targets.gaussian(2, 0.1), [np.linspace(-9, 11, 401)] * 2, 1e-9),
    "mixture": (TARGETS["mixture2"], [np.linspace(-15, 15, 402)] * 2, 1e-6),
    "banana": (targets.banana, [np.linspace(-25, 25, 301), np.linspace(-15, 125, 1401)], 1e-6),
    "wells": (lambda: targets.chain(2, *WELLS), [np.linspace(-3, 3, 802)] * 2, 1e-5),
    "phi4": (
        lambda: targets.chain(3, 0.5, 0.05, 1.0, [1], 1.0, 0.07),
        [np.linspace(-4, 4, 100)] * 3,
        1e-3,
    ),
    "rbm": (lambda: targets.rbm(2), [np.linspace(-12, 12, 241)] * 2, 1e-6),
}


@pytest.mark.parametrize("name", GRIDS)
def test_answers_agree_with_a_grid(name: str) -> None:
    make, axes, tolerance = GRIDS[name]
    target = make()
    log_z, mean, variance, masses = by_grid(target, *axes)
    assert log_z == pytest.approx(target.log_z, abs=1e-6)
    np.testing.assert_allclose(mean, np.broadcast_to(target.mean, mean.shape), atol=1e-6)
    np.testing.assert_allclose(variance, np.broadcast_to(target.variance, mean.shape), rtol=1e-6)
    np.testing.assert_allclose(masses, target.masses, atol=tolerance)


@pytest.mark.parametrize("dim", [32, 128])
def test_a_long_gaussian_by_its_dense_covariance(dim: int) -> None:
    target = targets.gaussian(dim, 0.1)
    covariance = 0.8 ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    law = stats.multivariate_normal(np.ones(dim), covariance)
    closed = 0.5 * (dim * np.log(2 * np.pi) + (dim - 1) * np.log(0.36))
    assert target.log_z == pytest.approx(closed, abs=1e-9)
    x = np.random.default_rng(0).normal(size=(5, dim))
    np.testing.assert_allclose(target.log_density(np, x) - target.log_z, law.logpdf(x), rtol=1e-9)


def test_the_funnel_by_its_conditionals() -> None:
    target = find("funnel")
    x = target.draw(np.random.default_rng(0), 20)
    scales = np.exp(0.5 * x[:, :1])
    log_p = stats.norm.logpdf(x[:, 0], scale=3.0) + stats.norm.logpdf(x[:, 1:], 0, scales).sum(1)
    np.testing.assert_allclose(target.log_density(np, x) - target.log_z, log_p, rtol=1e-9)


@pytest.mark.parametrize("name", ["mixture16", "mixture64"])
def test_a_mixture_along_the_line_of_its_centres(name: str) -> None:
    target = find(name)
    line = np.ones(target.dim) / target.dim**0.5
    at = np.linspace(-15, 15, 3001)
    along = np.exp(target.log_density(np, at[:, None] * line))
    log_z = np.log(along.sum() * 0.01) + 0.5 * (target.dim - 1) * np.log(2 * np.pi)
    assert log_z == pytest.approx(target.log_z, abs=1e-5)
    right = along[at > 0].sum() / along.sum()
    assert right == pytest.approx(target.masses[1], abs=1e-5)


def test_wells_by_bessel_functions_and_by_quadrature() -> None:
    even = targets.chain(3, 2.0, 0.0, *WELLS[2:])  # int exp(-a (x^2 - 1)^2) = pi/2 e^(-a/2) (I + I)
    bessel = special.iv(0.25, 1.0) + special.iv(-0.25, 1.0)
    assert even.log_z == pytest.approx(3 * np.log(np.pi / 2 * np.exp(-1.0) * bessel), abs=1e-9)
    one = targets.chain(2, *WELLS)
    f = lambda x: float(np.exp(one.log_density(np, np.array([x, 1.0])) - 0.3))  # noqa: E731
    whole, right = integrate.quad(f, -4, 4)[0], integrate.quad(f, 0, 4)[0]
    assert one.log_z == pytest.approx(2 * np.log(whole), abs=1e-7)
    assert one.masses[3] == pytest.approx((right / whole) ** 2, abs=1e-6)


def test_phi4_by_an_estimate_from_its_free_chain() -> None:
    """Weights of a Gaussian with the same covariance estimate log Z of all 16 sites."""
    target, rng = find("phi4"), np.random.default_rng(0)
    x = target.draw(rng, 20_000)
    law = stats.multivariate_normal(x[:10_000].mean(0), 1.3 * np.cov(x[:10_000].T))
    y = law.rvs(20_000, random_state=rng)
    ours = target.log_density(np, x[10_000:]) - law.logpdf(x[10_000:])
    theirs = target.log_density(np, y) - law.logpdf(y)
    shift = target.log_z
    # Both sides of Bennett's identity agree at the true log Z.
    up, down = special.expit(np.log(2) - ours + shift), special.expit(theirs - shift - np.log(2))
    error = np.hypot(up.std() / 10_000**0.5, 2 * down.std() / 20_000**0.5)
    assert abs(up.mean() - 2 * down.mean()) < 5 * error


def test_the_evidence_of_the_latent_model_by_the_marginal_of_x() -> None:
    target, rng = find("latent"), np.random.default_rng(0)
    weight = (rng.normal(size=(24, 16)) / 4).astype(np.float32)
    seen = (weight @ rng.normal(size=16) + 0.5 * rng.normal(size=24)).astype(np.float32)
    wide = weight.astype(float)
    marginal = stats.multivariate_normal(np.zeros(24), wide @ wide.T + 0.25 * np.eye(24))
    assert target.log_z == pytest.approx(marginal.logpdf(seen), abs=1e-9)


@pytest.mark.parametrize("name", TARGETS)
def test_draws_have_the_moments_and_densities_are_one(name: str) -> None:
    target = find(name)
    x = target.draw(np.random.default_rng(0), 2000)
    found = statistics(target, x)[:, :-1]
    assert x.shape == (2000, target.dim)
    assert np.all(abs(found.mean(0)) < 5 * found.std(0) / 2000**0.5)
    few = x[:5].astype(np.float32)
    ours = jax.vmap(partial(target.log_density, jnp))(few)
    np.testing.assert_allclose(ours, target.log_density(np, few.astype(float)), 1e-4, 1e-3)
