"""Chains of training step by step, at each evaluation: what is kept of them, and their figure."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator

from ebmjax.training import TrainState

Profile = Callable[[TrainState], dict[str, np.ndarray]]
"""From a state to what ``named`` makes of its chains; nothing where none are asked for."""

PREFIX = "profile"
LABELS = {
    "acceptance_prob": ("acceptance of the move", "linear"),
    "preconditioner": ("preconditioner G, mean over pixels", "log"),
    "temperature": ("temperature", "linear"),
    "direction_norm": ("norm of the direction", "log"),
    "bandwidth": ("bandwidth of the kernel", "linear"),
    "displacement": ("squared distance from the start, a pixel", "linear"),
    "log_density": ("log density, nats", "linear"),
}
"""The numbers that are drawn, with their axis; the order is that of the panels."""


def named(sampler: str, profile: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """``training.profile_chains`` of a sampler, by the names of its arrays in an evaluation."""
    return {f"{PREFIX}.{sampler}.{number}": np.asarray(v) for number, v in profile.items()}


def draw(workdir: Path) -> None:
    """``plots/chains.png``: each number against the step of a chain, a line an evaluation.

    A row a sampler. Nothing is drawn of a run that kept no profile.
    """
    evaluations: dict[int, dict[str, np.ndarray]] = {}
    for path in sorted((workdir / "evaluations").glob("*.npz")):
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in arrays.files if name.startswith(f"{PREFIX}.")}
        if kept:
            evaluations[int(path.stem)] = kept
    if not evaluations:
        return
    names = {name: tuple(name.split(".")[1:]) for kept in evaluations.values() for name in kept}
    samplers = sorted({sampler for sampler, _ in names.values()})
    numbers = [number for number in LABELS if number in {number for _, number in names.values()}]
    figure, grid = plt.subplots(
        len(samplers),
        len(numbers),
        figsize=(3.7 * len(numbers) + 1, 3.2 * len(samplers)),
        squeeze=False,
        layout="constrained",
    )
    colours = plt.cm.ScalarMappable(Normalize(0, max(*evaluations, 1)), "viridis")
    for line, sampler in zip(grid, samplers, strict=True):
        for axes, number in zip(line, numbers, strict=True):
            label, scale = LABELS[number]
            for step, kept in evaluations.items():
                values = kept.get(f"{PREFIX}.{sampler}.{number}", np.zeros(0))
                steps = np.arange(1, len(values) + 1)
                axes.plot(steps, values, color=colours.to_rgba(np.array(step)), lw=1.3)
            axes.set(title=sampler.replace("_", " "), xlabel="step of the chain")
            axes.set(ylabel=label, yscale=scale)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            if number == "acceptance_prob":
                axes.set_ylim(-0.03, 1.03)
            if not any(len(line.get_ydata()) for line in axes.lines):  # not of this sampler
                axes.set_axis_off()
    figure.colorbar(colours, ax=grid, label="step of training")
    figure.savefig(workdir / "plots" / "chains.png", dpi=130)
    plt.close(figure)
