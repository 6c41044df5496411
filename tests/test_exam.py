"""An exam with exact answers: samplers and log Z on densities whose integral and moments are known.

Chains begin at exact draws. A sampler that keeps the target's law then shows no bias at any step,
however slowly it moves, and independent chains give an honest standard error.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import evidence, samplers

LOG_2PI = np.log(2.0 * np.pi)
WRONG, NUM_CHAINS = 5.0, 512  # standard errors beyond which a bias counts


class Target(NamedTuple):
    log_density: Callable[..., Any]  # position (d,) to an unnormalised log density
    log_z: float
    mean: Any  # of the coordinates, (d,) or a number
    variance: Any
    draw: Callable[[np.random.Generator, int], np.ndarray]  # exact draws, (n, d)
    step_size: float  # of MALA


def gaussian(dim: int = 2, correlation: float = 0.8) -> Target:
    """An autoregression of unit variance about 1."""

    def log_density(x: Any) -> Any:
        y = x - 1.0
        steps = y[1:] - correlation * y[:-1]
        return -0.5 * (y[0] ** 2 + jnp.sum(steps**2) / (1.0 - correlation**2))

    lags = np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    factor = np.linalg.cholesky(correlation**lags)
    log_z = 0.5 * dim * LOG_2PI + np.log(np.diag(factor)).sum()
    draw = lambda rng, n: 1.0 + rng.normal(size=(n, dim)) @ factor.T  # noqa: E731
    return Target(log_density, log_z, 1.0, 1.0, draw, 0.3)


def banana(scale: float = 3.0, bend: float = 0.2) -> Target:
    """A curved ridge in the plane: x_2 is N(bend (x_1^2 - scale^2), 1)."""

    def log_density(x: Any) -> Any:
        off = x[1] - bend * (x[0] ** 2 - scale**2)
        return -0.5 * (x[0] ** 2 / scale**2 + off**2)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x, off = rng.normal(size=(2, n)) * [[scale], [1.0]]
        return np.stack([x, off + bend * (x**2 - scale**2)], -1)

    variance = np.array([scale**2, 1.0 + 2.0 * bend**2 * scale**4])
    return Target(log_density, LOG_2PI + np.log(scale), 0.0, variance, draw, 0.5)


def wells(dim: int = 4, depth: float = 3.0, field: float = 0.3) -> Target:
    """Independent double wells, exp(-depth (x^2 - 1)^2 + field x); a grid is exact."""

    def log_density(x: Any) -> Any:
        return jnp.sum(field * x - depth * (x**2 - 1.0) ** 2)

    grid, width = np.linspace(-4.0, 4.0, 4001, retstep=True)
    weights = width * np.exp(field * grid - depth * (grid**2 - 1.0) ** 2)
    shares = weights / weights.sum()
    draw = lambda rng, n: rng.choice(grid, (n, dim), p=shares)  # noqa: E731
    log_z = dim * np.log(weights.sum())
    mean = shares @ grid
    return Target(log_density, log_z, mean, shares @ grid**2 - mean**2, draw, 0.02)


TARGETS = {"gaussian": gaussian(), "banana": banana(), "wells": wells()}


def find_bias(target: Target, make: Callable[..., Any], step_size: float, factor: int = 1) -> Any:
    """Returns averages (chains, statistics) of chains from exact draws: 0 in the mean if right."""
    rng = np.random.default_rng(factor)
    starts = jnp.asarray(target.draw(rng, NUM_CHAINS), jnp.float32)
    sampler, key = make(target.log_density, step_size=step_size / factor), jax.random.key(factor)
    states, step = samplers.start_chains(key, sampler, starts), samplers.batch_step(sampler.step)
    numbers = {"num_steps": 120 * factor, "thinning": 20 * factor}
    _, draws, _ = samplers.run_chain(key, states, step, **numbers)
    centred = (np.asarray(draws, np.float64) - target.mean) / np.sqrt(target.variance)
    return np.concatenate([centred.mean(1), (centred**2 - 1.0).mean(1)], -1)


def in_standard_errors(averages: np.ndarray) -> float:
    return float(np.max(abs(averages.mean(0)) / averages.std(0, ddof=1) * len(averages) ** 0.5))


@pytest.mark.parametrize("name", TARGETS)
def test_a_metropolis_test_keeps_the_law(name: str) -> None:
    target = TARGETS[name]
    assert in_standard_errors(find_bias(target, samplers.mala, target.step_size)) < WRONG


@pytest.mark.parametrize("sampler", ["sgld", "underdamped_langevin"])
def test_without_one_the_bias_goes_with_the_step(sampler: str) -> None:
    """Two steps, one a quarter of the other, give the bias at step 0."""
    target, make = TARGETS["gaussian"], getattr(samplers, sampler)
    large, small = (find_bias(target, make, 0.1, factor) for factor in (1, 4))
    assert in_standard_errors((4.0 * small - large) / 3.0) < WRONG


class State(NamedTuple):
    position: Any


def wrong(log_density: Any, *, step_size: Any, noise: float = 1.0, ratio: float = 1.0) -> Any:
    """A MALA written anew; it is right where ``noise`` and ``ratio`` are 1."""
    gradient = jax.grad(log_density)

    def log_proposal(to: Any, start: Any) -> Any:
        return -jnp.sum((to - start - step_size * gradient(start)) ** 2) / (4.0 * step_size)

    def step(key: Any, state: Any) -> Any:
        x, keys = state.position, jax.random.split(key)
        move = noise * jnp.sqrt(2.0 * step_size) * jax.random.normal(keys[0], x.shape)
        y = x + step_size * gradient(x) + move
        log_ratio = log_density(y) - log_density(x)
        log_ratio += ratio * (log_proposal(x, y) - log_proposal(y, x))
        is_accepted = jnp.log(jax.random.uniform(keys[1])) < log_ratio
        return State(jnp.where(is_accepted, y, x)), {}

    return samplers.Sampler(State, step)


@pytest.mark.parametrize("mistake", [{}, {"noise": 0.8}, {"ratio": 0.0}, {"ratio": -1.0}])
def test_the_exam_tells_wrong_samplers(mistake: dict[str, float]) -> None:
    found = find_bias(TARGETS["gaussian"], partial(wrong, **mistake), 0.3)
    assert (in_standard_errors(found) < WRONG) == (not mistake)


@pytest.mark.parametrize("name", TARGETS)
def test_the_interval_of_log_z_holds_it(name: str) -> None:
    target = TARGETS[name]
    dim = target.draw(np.random.default_rng(0), 1).shape[1]
    scale = 4.0 if name == "banana" else 2.0
    base = evidence.Base(
        lambda key: scale * jax.random.normal(key, (dim,)),
        lambda x: jax.scipy.stats.norm.logpdf(x, scale=scale).sum(),
    )
    numbers = {"step_size": target.step_size, "num_chains": 64, "num_powers": 60, "num_long": 200}
    found = evidence.log_partition(jax.random.key(0), target.log_density, base, **numbers)
    assert found.interval[0] <= target.log_z <= found.interval[1]
    assert abs(found.value - target.log_z) < 0.5
