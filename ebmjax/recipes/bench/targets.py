"""Densities with exact answers: log Z, moments, masses of modes, and draws. Needs NumPy alone.

A target is a function below, or one in a user's file, that returns an ``ExactTarget``. Its log
density is written once for NumPy, JAX and PyTorch: ``xp`` is the module, positions are (..., d).
"""

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ebmjax._user_function import user_function

LOG_2PI = float(np.log(2.0 * np.pi))


class ExactTarget(NamedTuple):
    """A density and what is exactly known of it."""

    dim: int  # d, coordinates of a position
    log_density: Callable[[Any, Any], Any]  # (xp, x), positions (..., d) to unnormalised logs (...)
    log_z: float  # log of its integral, nats
    mean: Any  # of the coordinates of ``view``, a number or (k,); so is the variance
    variance: Any
    draw: Callable[[np.random.Generator, int], np.ndarray]  # (rng, n) to n exact draws, (n, d)
    base_scale: float  # chains begin at N(0, base_scale^2 I), which is also the base of log Z
    step_size: float  # of MALA, such that it accepts about two of three moves
    # Positions to the coordinates that are judged, whose fourth moments must be mild.
    view: Callable[[np.ndarray], np.ndarray] = lambda x: x
    mode_of: Callable[[np.ndarray], np.ndarray] | None = None  # positions to numbers of modes
    masses: Any = (1.0,)  # of the modes, (modes,)


def _add_gaussians(
    log_density: Any, centres: Any, logs: Any, scales: Any, factor: Any = None, mode_of: Any = None
) -> ExactTarget:
    """Returns the target that is a sum of Gaussians of covariance ``factor factor^T``.

    Their centres are (m, d), and their log densities there ``logs`` (m,). ``scales`` are the base's
    scale and the step size.
    """
    centres, total = np.asarray(centres, float), np.logaddexp.reduce(logs)
    shares, dim = np.exp(logs - total), centres.shape[1]
    factor = np.eye(dim) if factor is None else factor
    log_z = total + 0.5 * dim * LOG_2PI + np.log(np.diag(factor)).sum()
    mean = shares @ centres
    variance = np.sum(factor**2, 1) + shares @ (centres - mean) ** 2

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        which = rng.choice(len(shares), n, p=shares) if len(shares) > 1 else 0
        return centres[which] + rng.normal(size=(n, dim)) @ factor.T

    found = ExactTarget(dim, log_density, log_z, mean, variance, draw, *scales)
    return found._replace(mode_of=mode_of, masses=shares) if mode_of else found


def gaussian(dim: int, step_size: float, correlation: float = 0.8) -> ExactTarget:
    """Neighbours correlate: an autoregression of unit variance about 1."""

    def log_density(xp: Any, x: Any) -> Any:
        y = x - 1.0
        steps = y[..., 1:] - correlation * y[..., :-1]
        return -0.5 * (y[..., 0] ** 2 + xp.sum(steps**2, -1) / (1.0 - correlation**2))

    lags = np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    factor = np.linalg.cholesky(correlation**lags)
    return _add_gaussians(log_density, np.ones((1, dim)), [0.0], (2.0, step_size), factor)


def mixture(centres: Any, weights: Any, step_size: float) -> ExactTarget:
    """Gaussians of unit variance, each with a weight, 10 standard deviations or more apart.

    A mode is whatever lies nearest to a centre. Its mass is the weight, up to 3e-7.
    """
    centres, logs = np.asarray(centres, np.float32), np.log(weights)

    def log_density(xp: Any, x: Any) -> Any:
        squares = (xp.sum((x - xp.asarray(centre)) ** 2, -1) for centre in centres)
        parts = [float(log) - 0.5 * one for log, one in zip(logs, squares, strict=True)]
        return reduce(xp.logaddexp, parts)

    def mode_of(x: np.ndarray) -> np.ndarray:
        return np.argmax(x @ centres.T - 0.5 * np.sum(centres**2, -1), -1)

    scales = 1.0 + float(np.abs(centres).max()), step_size
    return _add_gaussians(log_density, centres, logs, scales, mode_of=mode_of)


def rbm(visible: int = 8, hidden: int = 16) -> ExactTarget:
    """A restricted Boltzmann machine of Gaussian visibles: a mixture of 2^hidden Gaussians."""
    weight = np.random.default_rng(0).normal(size=(visible, hidden))
    weight = (0.8 * weight).astype(np.float32)
    bias, slope = -weight.sum(1) / 2.0, -0.5 * np.sum(weight**2, 0)

    def log_density(xp: Any, x: Any) -> Any:
        inputs = x @ xp.asarray(weight) + xp.asarray(slope)
        soft = xp.sum(xp.logaddexp(inputs, xp.zeros_like(inputs)), -1)
        return -0.5 * xp.sum(x**2, -1) + xp.sum(x * xp.asarray(bias), -1) + soft

    states = np.indices((2,) * hidden).reshape(hidden, -1).T
    centres = bias + states @ weight.T.astype(float)
    logs = states @ slope.astype(float) + 0.5 * np.sum(centres**2, 1)
    return _add_gaussians(log_density, centres, logs, (4.0, 0.6))


def latent(dim: int = 16, event: int = 24, noise: float = 0.5) -> ExactTarget:
    """The posterior of a linear-Gaussian latent model at one observation; log Z is its evidence."""
    rng = np.random.default_rng(0)
    weight = (rng.normal(size=(event, dim)) / dim**0.5).astype(np.float32)
    seen = (weight @ rng.normal(size=dim) + noise * rng.normal(size=event)).astype(np.float32)
    constant = -0.5 * (dim * LOG_2PI + event * (LOG_2PI + 2.0 * np.log(noise)))

    def log_density(xp: Any, x: Any) -> Any:
        off = xp.asarray(seen) - x @ xp.asarray(weight.T.copy())
        return constant - 0.5 * (xp.sum(x**2, -1) + xp.sum(off**2, -1) / noise**2)

    wide = weight.astype(float)
    covariance = np.linalg.inv(np.eye(dim) + wide.T @ wide / noise**2)
    mean = covariance @ wide.T @ seen[None].T / noise**2
    factor = np.linalg.cholesky(covariance)
    return _add_gaussians(log_density, mean.T, log_density(np, mean.T), (1.5, 0.045), factor)


def funnel(dim: int = 10) -> ExactTarget:
    """Neal's funnel: the first coordinate, N(0, 9), is the log variance of the others.

    It is judged by that coordinate and the others over their standard deviations.
    """

    def log_density(xp: Any, x: Any) -> Any:
        v = x[..., 0]
        squares = xp.sum(x[..., 1:] ** 2, -1) * xp.exp(-v)
        return -(v**2) / 18.0 - 0.5 * (squares + (dim - 1) * v)

    def widen(x: np.ndarray, sign: float = 0.5) -> np.ndarray:
        return np.concatenate([x[..., :1], x[..., 1:] * np.exp(sign * x[..., :1])], -1)

    scales = np.array([3.0] + [1.0] * (dim - 1))
    return ExactTarget(
        dim, log_density, 0.5 * dim * LOG_2PI + np.log(3.0), 0.0, scales**2,
        lambda rng, n: widen(scales * rng.normal(size=(n, dim))), 3.0, 0.05,
        view=partial(widen, sign=-0.5),
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


def chain(
    dim: int, depth: float, field: float, spring: float, modes: list[int], *scales: Any
) -> ExactTarget:
    """Sites in double wells, exp(-depth (x^2 - 1)^2 + field x), springs between neighbours.

    The sum over all sites but one is a product of transfer matrices on a grid. Modes are the signs
    of some sites: of one, or of several that no springs join. See ``_add_gaussians`` for scales.
    """

    def log_density(xp: Any, x: Any) -> Any:
        alone = xp.sum(field * x - depth * (x**2 - 1.0) ** 2, -1)
        return alone - 0.5 * spring * xp.sum((x[..., 1:] - x[..., :-1]) ** 2, -1)

    grid, width = np.linspace(-4.0, 4.0, 401, retstep=True)  # 0 is a point of it
    alone = width * np.exp(log_density(np, grid[:, None]))
    springs = np.exp(-0.5 * spring * (grid[:, None] - grid) ** 2)
    after = [np.ones_like(grid)]  # after[i] is what the sites after i sum to, given site i
    for _ in range(dim - 1):
        after.insert(0, springs @ (alone * after[0]))
    # By symmetry, the sites before i sum to what the sites after its mirror image do.
    sites = alone * np.array(after) * np.array(after[::-1])
    log_z = np.log(sites[0].sum())
    sites /= sites.sum(1, keepdims=True)
    mean = sites @ grid
    right = sites[modes] @ np.heaviside(np.arange(-200, 201), 0.5)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        places = np.zeros((n, dim), int)
        places[:, 0] = rng.choice(len(grid), n, p=sites[0])
        for i, before in enumerate(places.T[:-1], 1):
            rows = np.cumsum(springs * alone * after[i], 1)
            # All rows end to end, each one longer than the last, are one sorted list.
            ends = np.ravel(rows / rows[:, -1:] + np.arange(len(grid))[:, None])
            sought = np.searchsorted(ends, before + rng.random(n)) - before * len(grid)
            places[:, i] = np.clip(sought, 0, len(grid) - 1)
        return grid[places] + width * (rng.random((n, dim)) - 0.5)

    return ExactTarget(
        dim, log_density, log_z, mean, sites @ grid**2 - mean**2, draw, *scales,
        mode_of=lambda x: (x[..., modes] > 0) @ (1 << np.arange(len(modes))[::-1]),
        masses=reduce(np.kron, np.stack([1.0 - right, right], 1)),
    )  # fmt: skip


_SQUARE = [[-6.0, -6.0], [6.0, -6.0], [-6.0, 6.0], [6.0, 6.0]]
TARGETS: dict[str, Callable[..., ExactTarget]] = {
    "gaussian2": lambda: gaussian(2, 0.3),
    "gaussian32": lambda: gaussian(32, 0.06),
    "gaussian128": lambda: gaussian(128, 0.04),
    "funnel": funnel,
    "mixture2": lambda: mixture(_SQUARE, [0.1, 0.2, 0.3, 0.4], 1.0),
    "mixture16": lambda: mixture(np.outer([-1.25, 1.25], np.ones(16)), [0.2, 0.8], 0.45),
    "mixture64": lambda: mixture(np.outer([-0.625, 0.625], np.ones(64)), [0.2, 0.8], 0.3),
    "banana": banana,
    "wells": lambda: chain(8, 3.0, 0.3, 0.0, [0, 1], 0.6, 0.02),
    "phi4": lambda: chain(16, 0.5, 0.05, 1.0, [8], 1.0, 0.07),
    "rbm": rbm,
    "latent": latent,
}


@cache
def find(name: str) -> ExactTarget:
    """Returns the target of a name of ``TARGETS``, or of a user's ``FILE.py:FUNCTION``."""
    return (TARGETS[name] if name in TARGETS else user_function(name))()
