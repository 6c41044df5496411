"""Plots of an image energy's run."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ebmjax.recipes.core.plots import INK, finish, legend, montage, panels
from ebmjax.recipes.core.workdir import read_rows
from ebmjax.recipes.images import chain_profiles

PANELS = (
    ("loss", ("loss", "kl_terms")),
    ("energy, nats", ("positive_energy", "negative_energy", "test_energy", "sample_energy")),
    ("acceptance in training", ("chain_acceptance_prob",)),
    (
        "acceptance of one move, by ratio",
        (
            "acceptance_literal",
            "acceptance_energies",
            "acceptance_twice_step",
            "acceptance_decoupled",
            "acceptance_implied",
        ),
    ),
    ("samples: FID", ("sample_fid", "start_fid")),
    ("chains", ("chain_displacement", "chain_step_size")),
    (
        "robust objective",
        ("positive_weight", "effective_sample_fraction", "effective_positive_fraction"),
    ),
)


def draw(workdir: Path) -> None:
    """Draws ``plots/training.png``, everything the run logged; and ``chains.png`` if profiled."""
    panels(workdir / "plots" / "training.png", read_rows(workdir), PANELS, log_scaled="chains")
    chain_profiles.draw(workdir)


def evaluated(
    workdir: Path, images: dict[str, np.ndarray], energies: dict[str, np.ndarray]
) -> None:
    """Draws ``eval_samples.png`` and ``eval_energies.png``."""
    figure, axes = plt.subplots(1, len(images), figsize=(4.2 * len(images), 4.8), squeeze=False)
    titles = {
        "short": "chains as in training",
        "fresh": "long chains",
        "buffer": "replay buffer",
        "starts": "where the long chains started",
    }
    for axis, (name, shown) in zip(axes[0], images.items(), strict=True):
        if len(shown):
            axis.imshow(montage(shown[:100], 10), interpolation="nearest")
        axis.set(title=titles[name], xticks=[], yticks=[])
    finish(figure, workdir / "plots" / "eval_samples.png")

    figure, axis = plt.subplots(figsize=(6, 4))
    sound = {name: e[np.isfinite(e)] for name, e in energies.items()}
    together = np.concatenate(list(sound.values()))
    if together.size:
        first, last = np.percentile(together, [0.5, 99.5])
        bins = np.linspace(first, last, 40)
        for name, values in sound.items():
            style: dict[str, Any] = (
                {"color": INK, "alpha": 0.3} if name == "test" else {"histtype": "step"}
            )
            axis.hist(np.clip(values, bins[0], bins[-1]), bins, density=True, label=name, **style)
    axis.set(xlabel="energy, nats", ylabel="density", yticks=[])
    legend(axis)
    finish(figure, workdir / "plots" / "eval_energies.png")
