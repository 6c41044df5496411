"""Scores of one library on one target: sampling, log Z, learning from data. Needs NumPy alone.

Chains are independent, so that an average over a chain is one draw, whatever its correlations, and
the standard error over chains is honest. Chains of the verdict begin at exact draws. A sampler
that keeps the target's law then shows no bias at any step, however slowly it moves.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ebmjax.recipes.bench.targets import ExactTarget, find

NUM_CHAINS, NUM_KEPT, NUM_GRADIENTS = 64, 48, 960
"""Chains of a seed, draws kept of each, and gradients that each may take."""
NUM_EXACT, GRADIENTS_EXACT, KEPT_EXACT = 2048, 240, 12
"""Chains of the verdict, their gradients, and the draws kept of each."""
WRONG = 5.0
"""Standard errors beyond which a bias counts."""
NUM_DATA, NUM_REFERENCE = 2048, 100_000

IGNORE = np.errstate(all="ignore")
"""Wraps functions of chains that may have gone to infinity."""

Run = Callable[..., Any]
"""Calls a function of an adapter: ``run(task, target's name, *arguments)``."""


class Scales(NamedTuple):
    """Moments of the statistics that are not known in closed form, from many exact draws.

    Attributes:
      scales: standard deviations of the statistics, (m,).
      offsets: means, 0 where they are known, and ``errors``, their standard errors, (m,).
    """

    scales: np.ndarray
    offsets: np.ndarray
    errors: np.ndarray


def raw_statistics(target: ExactTarget, x: np.ndarray) -> np.ndarray:
    """Returns the statistics (..., m) of positions (..., d), of mean 0 but for the last one.

    They are coordinates, their squares, the mean square, shares of modes and the log density.
    """
    x = np.asarray(x, np.float64)
    centred = (target.view(x) - target.mean) / np.sqrt(target.variance)
    squares = centred**2 - 1.0
    parts = [centred, squares, squares.mean(-1, keepdims=True)]
    if target.mode_of is not None:
        which = target.mode_of(x)[..., None] == np.arange(len(target.masses))
        parts.append(which - np.asarray(target.masses))
    parts.append(np.asarray(target.log_density(np, x))[..., None])
    return np.concatenate(parts, -1)


@cache
def reference(name: str) -> Scales:
    """Returns the scales of a target's statistics, and the mean of its log density."""
    target = find(name)
    found = raw_statistics(target, target.draw(np.random.default_rng(1), NUM_REFERENCE))
    scales, offsets, errors = found.std(0), np.zeros(found.shape[1]), np.zeros(found.shape[1])
    offsets[-1], errors[-1] = found[:, -1].mean(), 1.0 / NUM_REFERENCE**0.5
    return Scales(scales, offsets, errors)


def statistics(name: str, x: np.ndarray) -> np.ndarray:
    """Returns statistics (..., m) of mean 0 and variance 1 under the target."""
    known = reference(name)
    return (raw_statistics(find(name), x) - known.offsets) / known.scales


def largest_bias(name: str, chains: np.ndarray) -> float:
    """Returns the largest bias of averages (chains, m), in standard errors; inf for no number."""
    errors = np.hypot(chains.std(0, ddof=1) / len(chains) ** 0.5, reference(name).errors)
    found = np.abs(chains.mean(0)) / errors
    found = np.where(np.abs(chains.mean(0)) < 1e-9, 0.0, found)
    return float(np.max(found)) if np.isfinite(found).all() else float("inf")


def summarise(values: Any) -> dict[str, float]:
    """Returns the mean over seeds and a 95 % interval, by Student's t."""
    from scipy import special

    values = np.asarray(values, float)
    half = special.stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / len(values) ** 0.5
    mean = float(values.mean())
    return {"mean": mean, "low": mean - float(half), "high": mean + float(half)}


@IGNORE
def sample(run: Run, name: str, method: str, kind: str, num_seeds: int) -> dict[str, Any]:
    """Scores a sampler from wide starts, and looks for a bias from exact ones.

    An error is the root mean square over coordinates and their squares of the bias in standard
    deviations: 1 / sqrt(n) for n exact draws.
    """
    target, rng = find(name), np.random.default_rng(2)
    starts = target.base_scale * rng.normal(size=(num_seeds, NUM_CHAINS, target.dim))
    began = time.perf_counter()
    draws, gradients = run(
        "sample", name, method, starts, target.step_size, NUM_GRADIENTS, NUM_KEPT, 1
    )
    seconds = time.perf_counter() - began
    found = statistics(name, draws)
    num = 2 * np.size(target.view(starts[0, :1]))
    errors = {}
    for part in (8, 4, 2, 1):  # of the budget; the first half of each part is left out
        end = NUM_KEPT // part
        errors[gradients / part] = _error(found[:, :, end // 2 : end], num)
    exact = target.draw(rng, num_seeds * NUM_CHAINS * NUM_KEPT // 2)
    exact = statistics(name, exact).reshape(num_seeds, NUM_CHAINS, NUM_KEPT // 2, -1)
    halves = found[:, :, NUM_KEPT // 2 :].mean(2).reshape(-1, found.shape[-1])
    row = {
        "error": summarise(errors[gradients]),
        "curve": {f"{at:.0f}": summarise(values) for at, values in errors.items()},
        "exact_error": summarise(_error(exact, num)),
        "start_error": summarise(_error(statistics(name, starts)[:, :, None], num)),
        "draws_per_1000_gradients": float(
            1e3 / (np.mean(errors[gradients] ** 2) * gradients * NUM_CHAINS)
        ),
        "gradients": gradients * NUM_CHAINS,
        "seconds": seconds,
        "bias": largest_bias(name, halves),
    }
    if target.mode_of is not None:
        modes = slice(num + 1, num + 1 + len(target.masses))
        shares = found[:, :, NUM_KEPT // 2 :, modes].mean((1, 2)) * reference(name).scales[modes]
        row["mass_error"] = summarise(0.5 * np.abs(shares).sum(-1))
    row["exact_bias"] = find_bias(run, name, method, kind)
    row["verdict"] = judge(row["bias"], row["exact_bias"])
    return row


def _error(found: np.ndarray, num: int) -> np.ndarray:
    """Returns errors (seeds,) of statistics (seeds, chains, draws, m), the first ``num`` of m."""
    return np.sqrt(np.mean(found[..., :num].mean((1, 2)) ** 2, -1))


@IGNORE
def find_bias(run: Run, name: str, method: str, kind: str) -> float | None:
    """Returns the bias of chains that begin at exact draws, in standard errors; None for particles.

    A sampler of kind "step" has a bias of its step. Two steps, one a quarter of the other, give the
    bias at step 0. Where chains diverge at the target's step, a quarter of it is the larger one.
    """
    if kind == "particles":
        return None
    target, rng = find(name), np.random.default_rng(3)

    def averages(factor: int) -> np.ndarray:
        starts = target.draw(rng, NUM_EXACT)[None]
        numbers = target.step_size / factor, GRADIENTS_EXACT * factor, KEPT_EXACT, 2 + factor
        return statistics(name, run("sample", name, method, starts, *numbers)[0][0]).mean(1)

    found = averages(1)
    if kind == "exact":
        return largest_bias(name, found)
    factor = 1
    if not np.isfinite(found).all():  # the target's step is too large without a Metropolis test
        factor, found = 4, averages(4)
    return largest_bias(name, (4.0 * averages(4 * factor) - found) / 3.0)


def judge(bias: float, exact_bias: float | None) -> str:
    """Returns the verdict: "wrong", "diverged", "not yet" or "right"; particles are not judged."""
    if exact_bias is None:
        return "particles"
    if exact_bias > WRONG:
        return "wrong"
    return "diverged" if np.isinf(bias) else "not yet" if bias > WRONG else "right"


def logz(run: Run, name: str, method: str, kind: str, num_seeds: int) -> dict[str, Any]:
    """Scores estimates of log Z, beside plain weights of as many draws from the base."""
    target, rng = find(name), np.random.default_rng(4)
    began = time.perf_counter()
    values, ends, gradients = run("logz", name, method, num_seeds)
    seconds = time.perf_counter() - began
    error = np.asarray(values, float) - target.log_z
    plain = [_plain(target, rng, min(int(gradients), 50_000)) for _ in range(num_seeds)]
    row = {
        "error": summarise(np.abs(error)),
        "start_error": summarise(np.abs(plain)),
        "bias": summarise(error),
        "gradients": gradients,
        "seconds": seconds,
    }
    if ends is not None:
        low, high = np.asarray(ends, float).T
        is_inside = (low <= target.log_z) & (target.log_z <= high)
        inside = f"{is_inside.sum()} of {num_seeds}"
        row |= {"inside": inside, "width": summarise(high - low)}
    return row


def _plain(target: ExactTarget, rng: np.random.Generator, num: int) -> float:
    x = rng.normal(size=(num, target.dim))
    logs = target.log_density(np, target.base_scale * x) + 0.5 * np.sum(x**2, -1)
    logs += target.dim * (0.5 * np.log(2.0 * np.pi) + np.log(target.base_scale))
    return float(logs.max() + np.log(np.mean(np.exp(logs - logs.max()))) - target.log_z)


def learn(run: Run, name: str, method: str, kind: str, num_seeds: int) -> dict[str, Any]:
    """Scores densities that are trained on exact draws, by KL(target, model) on fresh ones.

    A grid normalises the model, so that targets have two coordinates.
    """
    target, rng = find(name), np.random.default_rng(5)
    data = target.draw(rng, num_seeds * NUM_DATA).reshape(num_seeds, NUM_DATA, 2)
    fresh = target.draw(rng, 20_000)
    low, wide = fresh.min(0), np.ptp(fresh, 0)
    places, step = np.linspace(-0.5, 1.5, 300, retstep=True)
    grid = low + wide * np.stack(np.meshgrid(places, places), -1).reshape(-1, 2)
    cell = np.log(np.prod(wide * step))
    began = time.perf_counter()
    found = np.asarray(run("learn", name, method, data, np.concatenate([fresh, grid])), float)
    seconds = time.perf_counter() - began
    model, at_grid = found[:, : len(fresh)], found[:, len(fresh) :]
    top = at_grid.max(1, keepdims=True)
    log_z = top[:, 0] + np.log(np.exp(at_grid - top).sum(1)) + cell
    truth = target.log_density(np, fresh).mean() - target.log_z
    kl = truth - (model.mean(1) - log_z)
    gaussians = [truth - _log_gaussian(one, fresh).mean() for one in data]
    return {"error": summarise(kl), "start_error": summarise(gaussians), "seconds": seconds}


def _log_gaussian(data: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns log densities at ``x`` (n,) of the Gaussian fitted to points of the plane."""
    off, covariance = x - data.mean(0), np.cov(data.T)
    squares = np.sum(off @ np.linalg.inv(covariance) * off, -1)
    return -0.5 * (squares + 2.0 * np.log(2.0 * np.pi) + np.linalg.slogdet(covariance)[1])


TASKS: Mapping[str, Callable[[Run, str, str, str, int], dict[str, Any]]] = {
    "sample": sample,
    "logz": logz,
    "learn": learn,
}
