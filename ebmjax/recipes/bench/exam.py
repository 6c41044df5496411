"""Scores of one library on one target: sampling, log Z, learning from data. Needs NumPy alone.

Chains are independent, so that an average over a chain is one draw, whatever its correlations, and
the standard error over chains is honest. Chains of the verdict begin at exact draws. A sampler
that keeps the target's law then shows no bias at any step, however slowly it moves.

A task takes ``run(task, target's name, *arguments)``, which calls a function of an adapter, and
the names of target, method and the method's word. Its numbers of seeds are arrays (seeds,).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.bench.libraries import load
from ebmjax.recipes.bench.targets import LOG_2PI, ExactTarget, find

NUM_CHAINS, NUM_KEPT, NUM_GRADIENTS = 64, 48, 960  # of a seed; the last two are of a chain
NUM_EXACT, KEPT_EXACT, GRADIENTS_EXACT = 2048, 12, 240  # the same for chains of the verdict
WRONG = 5.0  # standard errors beyond which a bias counts
NUM_DATA, NUM_REFERENCE = 2048, 100_000

Run = Callable[..., Any]
IGNORE = np.errstate(all="ignore")  # for chains that may have gone to infinity


def statistics(target: ExactTarget, x: np.ndarray, means: Any = 0.0, scales: Any = 1.0) -> Any:
    """Returns the statistics (..., m) of positions (..., d), less their means, over their scales.

    They are coordinates, their squares, the mean square, shares of modes and the log density. All
    but the last have mean 0 under the target.
    """
    x = np.asarray(x, np.float64)
    centred = (target.view(x) - target.mean) / np.sqrt(target.variance)
    squares = centred**2 - 1.0
    parts = [centred, squares, squares.mean(-1, keepdims=True)]
    if target.mode_of is not None:
        which = target.mode_of(x)[..., None] == np.arange(len(target.masses))
        parts.append(which - np.asarray(target.masses))
    parts.append(np.asarray(target.log_density(np, x))[..., None])
    return (np.concatenate(parts, -1) - means) / scales


@cache
def reference(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and standard deviations of the statistics, (m,), from many exact draws."""
    found = statistics(find(name), find(name).draw(np.random.default_rng(1), NUM_REFERENCE))
    return np.append(np.zeros(found.shape[1] - 1), found[:, -1].mean()), found.std(0)


def largest_bias(chains: np.ndarray) -> float:
    """Returns the largest bias of averages (chains, m), in standard errors; inf for no number."""
    errors = chains.std(0, ddof=1) / len(chains) ** 0.5
    errors[-1] = np.hypot(errors[-1], NUM_REFERENCE**-0.5)  # that of the known mean
    bias = np.abs(chains.mean(0))
    found = np.where(bias < 1e-9, 0.0, bias / errors)
    return float(np.max(found)) if np.isfinite(found).all() else float("inf")


@IGNORE
def sample(run: Run, name: str, method: str, kind: str, num_seeds: int) -> dict[str, Any]:
    """Scores a sampler from wide starts, and looks for a bias from exact ones.

    Error: root mean square bias of means and variances, in standard deviations, after the gradients
    beside it; n exact draws have 1 / sqrt(n). Exact error: that of as many draws; start error: that
    of the start. Exact bias: the largest bias of chains that begin at exact draws, in standard
    errors; beyond 5 the verdict is wrong. Not yet: far from the target after these gradients.
    """
    target, known, rng = find(name), reference(name), np.random.default_rng(2)
    starts = target.base_scale * rng.normal(size=(num_seeds, NUM_CHAINS, target.dim))
    numbers = target.step_size, NUM_GRADIENTS, NUM_KEPT, 1
    draws, gradients = run("sample", name, method, starts, *numbers)
    exact = target.draw(rng, num_seeds * NUM_CHAINS * NUM_KEPT // 2)
    exact = exact.reshape(num_seeds, NUM_CHAINS, NUM_KEPT // 2, -1)
    num = 2 * np.size(target.view(starts[0, :1]))

    def error(x: np.ndarray) -> np.ndarray:
        found = statistics(target, x, *known)[..., :num].mean((1, 2))
        return np.sqrt(np.mean(found**2, -1))

    # Of parts of the budget, the first half of each left out.
    halves = {part: draws[:, :, NUM_KEPT // part // 2 : NUM_KEPT // part] for part in (8, 4, 2, 1)}
    last, averages = error(halves[1]), statistics(target, halves[1], *known).mean(2)
    row = {
        "error": last,
        "curve": {f"{gradients / part:.0f}": error(half) for part, half in halves.items()},
        "exact_error": error(exact),
        "start_error": error(starts[:, :, None]),
        "draws_per_1000_gradients": 1e3 / (np.mean(last**2) * gradients * NUM_CHAINS),
    }
    if target.mode_of is not None:
        shares = (averages * known[1])[..., num + 1 : -1].mean(1)
        row["mass_error"] = 0.5 * np.abs(shares).sum(-1)
    bias = largest_bias(np.concatenate(averages))
    exact_bias = find_bias(run, name, method, kind)
    verdict = "not yet" if bias > WRONG else "right"
    verdict = "diverged" if np.isinf(bias) else verdict
    verdict = "wrong" if (exact_bias or 0.0) > WRONG else verdict
    verdict = "particles" if exact_bias is None else verdict
    found = {"exact_bias": exact_bias, "verdict": verdict, "bias": bias}
    return row | found | {"gradients": gradients * NUM_CHAINS}


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
        draws = run("sample", name, method, starts, *numbers)[0][0]
        return statistics(target, draws, *reference(name)).mean(1)

    factor, found = 1, averages(1)
    if kind == "exact":
        return largest_bias(found)
    if not np.isfinite(found).all():  # the target's step is too large without a Metropolis test
        factor, found = 4, averages(4)
    return largest_bias((4.0 * averages(4 * factor) - found) / 3.0)


def logz(run: Run, name: str, method: str, kind: str, num_seeds: int) -> dict[str, Any]:
    """Scores estimates of log Z.

    Error: distance from log Z in nats; start error: that of plain weights of as many draws from the
    base; inside: seeds whose interval holds log Z; width: of the interval.
    """
    target, rng = find(name), np.random.default_rng(4)
    values, ends, gradients = run("logz", name, method, num_seeds)
    plain = np.full(num_seeds, target.dim * (0.5 * LOG_2PI + np.log(target.base_scale)))
    for seed in range(num_seeds):
        x = rng.normal(size=(min(int(gradients), 50_000), target.dim))
        logs = target.log_density(np, target.base_scale * x) + 0.5 * np.sum(x**2, -1)
        plain[seed] += np.logaddexp.reduce(logs) - np.log(len(x))
    bias = np.asarray(values, float) - target.log_z
    row = {"error": np.abs(bias), "start_error": np.abs(plain - target.log_z), "bias": bias}
    if ends is not None:
        low, high = np.asarray(ends, float).T
        num_inside = np.sum((low <= target.log_z) & (target.log_z <= high))
        row |= {"inside": f"{num_inside} of {num_seeds}", "width": high - low}
    return row | {"gradients": gradients}


def learn(run: Run, name: str, method: str, kind: str, num_seeds: int) -> dict[str, Any]:
    """Scores densities of two coordinates that are trained on exact draws; a grid normalises them.

    Error: KL divergence from the target to the model, in nats, on fresh draws; start error: that of
    a Gaussian fitted to the same data. Exact answers have 0.
    """
    target, rng = find(name), np.random.default_rng(5)
    data = target.draw(rng, num_seeds * NUM_DATA).reshape(num_seeds, NUM_DATA, 2)
    fresh = target.draw(rng, 20_000)
    low, wide = fresh.min(0), np.ptp(fresh, 0)
    places, step = np.linspace(-0.5, 1.5, 300, retstep=True)
    grid = low + wide * np.stack(np.meshgrid(places, places), -1).reshape(-1, 2)
    found = np.asarray(run("learn", name, method, data, np.concatenate([fresh, grid])), float)
    log_z = np.logaddexp.reduce(found[:, len(fresh) :], 1) + np.log(np.prod(wide * step))
    gaussians = []
    for one in data:
        off, covariance = fresh - one.mean(0), np.cov(one.T)
        squares = np.sum(off @ np.linalg.inv(covariance) * off, -1).mean()
        gaussians.append(-0.5 * (squares + np.linalg.slogdet(covariance)[1]) - LOG_2PI)
    truth = target.log_density(np, fresh).mean() - target.log_z
    models = found[:, : len(fresh)].mean(1) - log_z
    return {"error": truth - models, "start_error": truth - np.array(gaussians)}


TASKS = {"sample": sample, "logz": logz, "learn": learn}


def examine(python: str, *cell: str) -> dict[str, Any]:
    """Returns the row of a cell, and the seconds of its first call, from ``python`` or this one.

    A cell is a task, a target, a library, a method and the number of seeds.
    """
    if python != sys.executable:
        paths = f"{Path(__file__).parents[3]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        # One thread, unless the environment says more: PyTorch's threads would wait busily.
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
        command = [python, "-m", __name__, *cell]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or "it ended").splitlines()[-1])
        return json.loads(done.stdout.splitlines()[-1])  # a library may print, too
    task, target, library, method, num_seeds = cell
    adapter, seconds = load(library), []

    def run(task: str, name: str, *given: Any) -> Any:
        began = time.perf_counter()
        found = getattr(adapter, task)(find(name), *given)
        seconds.append(time.perf_counter() - began)
        return found

    row = TASKS[task](run, target, method, adapter.TASKS[task][method], int(num_seeds))
    return {**row, "seconds": seconds[0]}


@IGNORE
def summarise(found: Any) -> Any:
    """Returns a row whose numbers of seeds are means and 95 % intervals, by Student's t."""
    from scipy import special

    if isinstance(found, dict):
        return {name: summarise(one) for name, one in found.items()}
    if not isinstance(found, list | np.ndarray):
        return found
    values = np.asarray(found, float)
    half = special.stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / len(values) ** 0.5
    ends = {"low": values.mean() - half, "high": values.mean() + half}
    return {"mean": float(values.mean()), **ends}


if __name__ == "__main__":
    print(json.dumps(examine(sys.executable, *sys.argv[1:]), default=np.ndarray.tolist))
