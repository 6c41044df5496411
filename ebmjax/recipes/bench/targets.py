"""Densities with exact answers: log Z, moments, masses of modes, and draws. Needs NumPy alone.

A target is a function below, or one in a user's file, that returns an ``ExactTarget``. Its log
density is written once for NumPy, JAX and PyTorch: ``xp`` is the module, positions are (..., d).
"""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ebmjax._user_function import user_function

LOG_2PI = float(np.log(2.0 * np.pi))


class ExactTarget(NamedTuple):
    """A density and what is exactly known of it.

    Attributes:
      dim: d, coordinates of a position.
      log_density: ``(xp, x)``, positions (..., d) to unnormalised log densities (...,).
      log_z: log of its integral, nats.
      mean, variance: of the coordinates of ``view``, each a number or (k,).
      draw: ``(rng, n)`` to n exact draws, (n, d), float64.
      base_scale: chains begin at N(0, base_scale^2 I), which is also the base of log Z.
      step_size: of MALA, such that it accepts about two of three moves.
      view: positions to the coordinates that are judged, whose fourth moments must be mild.
      mode_of: positions to the numbers of their modes; None for one mode.
      masses: of the modes, (modes,).
    """

    dim: int
    log_density: Callable[[Any, Any], Any]
    log_z: float
    mean: Any
    variance: Any
    draw: Callable[[np.random.Generator, int], np.ndarray]
    base_scale: float
    step_size: float
    view: Callable[[np.ndarray], np.ndarray] = lambda x: x
    mode_of: Callable[[np.ndarray], np.ndarray] | None = None
    masses: Any = (1.0,)


def gaussian(dim: int, step_size: float, correlation: float = 0.8) -> ExactTarget:
    """Neighbours correlate: an autoregression of unit variance about 1."""
    rest = 1.0 - correlation**2

    def log_density(xp: Any, x: Any) -> Any:
        y = x - 1.0
        steps = y[..., 1:] - correlation * y[..., :-1]
        return -0.5 * (y[..., 0] ** 2 + xp.sum(steps**2, -1) / rest)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x = rng.normal(size=(n, dim))
        for i in range(1, dim):
            x[:, i] = correlation * x[:, i - 1] + rest**0.5 * x[:, i]
        return 1.0 + x

    log_z = 0.5 * (dim * LOG_2PI + (dim - 1) * np.log(rest))
    return ExactTarget(dim, log_density, log_z, 1.0, 1.0, draw, 2.0, step_size)


def funnel(dim: int = 10) -> ExactTarget:
    """Neal's funnel: the first coordinate, N(0, 9), is the log variance of the others.

    It is judged by that coordinate and the others over their standard deviations.
    """

    def log_density(xp: Any, x: Any) -> Any:
        v = x[..., 0]
        squares = xp.sum(x[..., 1:] ** 2, -1) * xp.exp(-v)
        return -(v**2) / 18.0 - 0.5 * (squares + (dim - 1) * v)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x = rng.normal(size=(n, dim))
        x[:, 0] *= 3.0
        x[:, 1:] *= np.exp(0.5 * x[:, :1])
        return x

    def view(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[..., :1], x[..., 1:] * np.exp(-0.5 * x[..., :1])], -1)

    variance = np.array([9.0] + [1.0] * (dim - 1))
    log_z = 0.5 * dim * LOG_2PI + np.log(3.0)
    return ExactTarget(dim, log_density, log_z, 0.0, variance, draw, 3.0, 0.05, view)


def mixture(centres: Any, weights: Any, step_size: float) -> ExactTarget:
    """Gaussians of unit variance, each with a weight, 10 standard deviations or more apart.

    A mode is whatever lies nearest to a centre. Its mass is the weight, up to 3e-7.
    """
    centres, weights = np.asarray(centres, np.float32), np.asarray(weights)
    dim = centres.shape[-1]

    def log_density(xp: Any, x: Any) -> Any:
        squares = xp.sum((x[..., None, :] - xp.asarray(centres)) ** 2, -1)
        logs = xp.asarray(np.log(weights).astype(np.float32)) - 0.5 * squares
        highest = xp.amax(logs, -1)
        return highest + xp.log(xp.sum(xp.exp(logs - highest[..., None]), -1))

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return centres[rng.choice(len(weights), n, p=weights)] + rng.normal(size=(n, dim))

    def mode_of(x: np.ndarray) -> np.ndarray:
        return np.argmax(x @ centres.T - 0.5 * np.sum(centres**2, -1), -1)

    mean = weights @ centres.astype(float)
    variance = 1.0 + weights @ (centres - mean) ** 2
    scale = 1.0 + float(np.abs(centres).max())
    log_z = 0.5 * dim * LOG_2PI
    return ExactTarget(
        dim, log_density, log_z, mean, variance, draw, scale, step_size, mode_of=mode_of,
        masses=weights,
    )  # fmt: skip


def banana(scale: float = 3.0, bend: float = 0.2) -> ExactTarget:
    """A curved ridge in the plane: x_2 is N(bend (x_1^2 - scale^2), 1)."""

    def log_density(xp: Any, x: Any) -> Any:
        off = x[..., 1] - bend * (x[..., 0] ** 2 - scale**2)
        return -0.5 * (x[..., 0] ** 2 / scale**2 + off**2)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        x = rng.normal(size=(n, 2)) * [scale, 1.0]
        x[:, 1] += bend * (x[:, 0] ** 2 - scale**2)
        return x

    variance = np.array([scale**2, 1.0 + 2.0 * bend**2 * scale**4])
    return ExactTarget(2, log_density, LOG_2PI + np.log(scale), 0.0, variance, draw, 4.0, 0.5)


def wells(dim: int = 8, depth: float = 3.0, tilt: float = 0.3) -> ExactTarget:
    """Independent double wells, exp(-depth (x^2 - 1)^2 + tilt x); modes are signs of the first two.

    Its numbers come from a grid of one coordinate.
    """
    grid, width = np.linspace(-3.0, 3.0, 6001, retstep=True)
    logs = -depth * (grid**2 - 1.0) ** 2 + tilt * grid
    one = np.exp(logs)
    log_z, one = np.log(one.sum() * width), one / one.sum()
    mean = one @ grid
    variance = one @ (grid - mean) ** 2
    right = one[grid > 0].sum() + 0.5 * one[grid == 0].sum()  # 0 is a point of the grid

    def log_density(xp: Any, x: Any) -> Any:
        return xp.sum(tilt * x - depth * (x**2 - 1.0) ** 2, -1)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.interp(rng.random((n, dim)), np.cumsum(one) - 0.5 * one, grid)

    def mode_of(x: np.ndarray) -> np.ndarray:
        return 2 * (x[..., 0] > 0) + (x[..., 1] > 0)

    masses = np.outer([1.0 - right, right], [1.0 - right, right]).ravel()
    return ExactTarget(
        dim, log_density, dim * log_z, mean, variance, draw, 0.6, 0.02, mode_of=mode_of,
        masses=masses,
    )  # fmt: skip


def phi4(dim: int = 16, depth: float = 0.5, field: float = 0.05) -> ExactTarget:
    """A chain of sites in double wells, with a spring between neighbours; open ends.

    The sum over all sites but one is a product of transfer matrices on a grid. Modes are the signs
    of the site in the middle.
    """
    grid, width = np.linspace(-4.0, 4.0, 401, retstep=True)
    logs = -depth * (grid**2 - 1.0) ** 2 + field * grid
    springs = np.exp(-0.5 * (grid[:, None] - grid) ** 2)
    # after[i] is what the sites after i sum to, given site i, up to a factor.
    after, log_z = [np.ones_like(grid)], 0.0
    for _ in range(dim - 1):
        summed = springs @ (np.exp(logs) * after[0])
        log_z += np.log(summed.max() * width)
        after.insert(0, summed / summed.max())
    log_z += np.log(np.sum(np.exp(logs) * after[0]) * width)
    # By symmetry, the sites before i sum to what the sites after its mirror image do.
    sites = np.exp(logs) * np.array(after) * np.array(after[::-1])
    sites /= sites.sum(1, keepdims=True)
    mean = sites @ grid
    variance = np.array([site @ (grid - m) ** 2 for site, m in zip(sites, mean, strict=True)])
    half = sites[dim // 2]
    right = half[grid > width / 2].sum() + 0.5 * half[abs(grid) < width / 2].sum()

    def log_density(xp: Any, x: Any) -> Any:
        alone = field * x - depth * (x**2 - 1.0) ** 2
        return xp.sum(alone, -1) - 0.5 * xp.sum((x[..., 1:] - x[..., :-1]) ** 2, -1)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        places = np.zeros((n, dim), int)
        for i in range(dim):
            shares = np.exp(logs) * after[i]
            rows = springs * shares if i else np.broadcast_to(shares, springs.shape)
            ends = np.cumsum(rows / rows.sum(1, keepdims=True), 1)
            before = places[:, i - 1] if i else places[:, 0]
            # All rows end to end, each one longer than the last, are one sorted list.
            sought = np.searchsorted(
                np.ravel(ends + np.arange(len(grid))[:, None]), before + rng.random(n)
            )
            places[:, i] = np.clip(sought - before * len(grid), 0, len(grid) - 1)
        return grid[places] + width * (rng.random((n, dim)) - 0.5)

    return ExactTarget(
        dim, log_density, log_z, mean, variance, draw, 1.0, 0.07,
        mode_of=lambda x: (x[..., dim // 2] > 0).astype(int), masses=np.array([1 - right, right]),
    )  # fmt: skip


def rbm(visible: int = 8, hidden: int = 16) -> ExactTarget:
    """A restricted Boltzmann machine of Gaussian visibles: a mixture of 2^hidden Gaussians."""
    rng = np.random.default_rng(0)
    weight = (0.8 * rng.normal(size=(visible, hidden))).astype(np.float32)
    bias = (-weight.sum(1) / 2.0).astype(np.float32)
    slope = (-0.5 * np.sum(weight**2, 0)).astype(np.float32)

    states = np.array(list(itertools.product([0.0, 1.0], repeat=hidden)))
    centres = bias + states @ weight.T.astype(float)
    logs = states @ slope.astype(float) + 0.5 * np.sum(centres**2, 1)
    shift = logs.max()
    shares = np.exp(logs - shift)
    log_z = 0.5 * visible * LOG_2PI + shift + np.log(shares.sum())
    shares /= shares.sum()
    mean = shares @ centres
    variance = 1.0 + shares @ (centres - mean) ** 2

    def log_density(xp: Any, x: Any) -> Any:
        inputs = x @ xp.asarray(weight) + xp.asarray(slope)
        soft = xp.sum(xp.logaddexp(inputs, xp.zeros_like(inputs)), -1)
        return -0.5 * xp.sum(x**2, -1) + xp.sum(x * xp.asarray(bias), -1) + soft

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return centres[rng.choice(len(shares), n, p=shares)] + rng.normal(size=(n, visible))

    return ExactTarget(visible, log_density, log_z, mean, variance, draw, 4.0, 0.6)


def latent(dim: int = 16, event: int = 24, noise: float = 0.5) -> ExactTarget:
    """The posterior of a linear-Gaussian latent model at one observation; log Z is its evidence."""
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=(event, dim)) / dim**0.5).astype(np.float32)
    seen = (weight @ rng.normal(size=dim) + noise * rng.normal(size=event)).astype(np.float32)
    wide, x_seen = weight.astype(float), seen.astype(float)
    precision = np.eye(dim) + wide.T @ wide / noise**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ wide.T @ x_seen / noise**2
    constant = -0.5 * (dim * LOG_2PI + event * (LOG_2PI + 2.0 * np.log(noise)))
    at_mean = -0.5 * (mean @ mean + np.sum((x_seen - wide @ mean) ** 2) / noise**2)
    log_z = constant + at_mean + 0.5 * (dim * LOG_2PI - np.linalg.slogdet(precision)[1])
    factor = np.linalg.cholesky(covariance)

    def log_density(xp: Any, x: Any) -> Any:
        off = xp.asarray(seen) - x @ xp.asarray(weight.T.copy())
        return constant - 0.5 * (xp.sum(x**2, -1) + xp.sum(off**2, -1) / noise**2)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return mean + rng.normal(size=(n, dim)) @ factor.T

    return ExactTarget(dim, log_density, log_z, mean, np.diag(covariance), draw, 1.5, 0.045)


def _pair(dim: int) -> Any:
    return np.full((1, dim), 5.0 / dim**0.5) * [[-1.0], [1.0]]


_SQUARE = [[-6.0, -6.0], [6.0, -6.0], [-6.0, 6.0], [6.0, 6.0]]
TARGETS: dict[str, Callable[[], ExactTarget]] = {
    "gaussian2": lambda: gaussian(2, 0.3),
    "gaussian32": lambda: gaussian(32, 0.06),
    "gaussian128": lambda: gaussian(128, 0.04),
    "funnel": funnel,
    "mixture2": lambda: mixture(_SQUARE, [0.1, 0.2, 0.3, 0.4], 1.0),
    "mixture16": lambda: mixture(_pair(16), [0.2, 0.8], 0.45),
    "mixture64": lambda: mixture(_pair(64), [0.2, 0.8], 0.3),
    "banana": banana,
    "wells": wells,
    "phi4": phi4,
    "rbm": rbm,
    "latent": latent,
}


@cache
def find(name: str) -> ExactTarget:
    """Returns the target of a name of ``TARGETS``, or of a user's ``FILE.py:FUNCTION``."""
    if name in TARGETS:
        return TARGETS[name]()
    return user_function(name)()
