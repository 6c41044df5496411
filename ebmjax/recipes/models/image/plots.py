"""Plots of an image energy's run."""

from pathlib import Path

import numpy as np

from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators import chain_profiles
from ebmjax.recipes.evaluators.plots import figure, histograms, legend, panels, tiles
from ebmjax.recipes.evaluators.sample_scores import FIDS
from ebmjax.recipes.folder.workdir import read_rows

PANELS = (
    ("loss", ("loss", "kl_terms"), "linear"),
    (
        "energy, nats",
        ("positive_energy", "negative_energy", "test_energy", "sample_energy"),
        "linear",
    ),
    ("acceptance in training", ("chain_acceptance_prob",), "linear"),
    (
        "acceptance of one move, by ratio",
        (
            "acceptance_literal",
            "acceptance_energies",
            "acceptance_twice_step",
            "acceptance_decoupled",
            "acceptance_implied",
        ),
        "linear",
    ),
    ("FID of samples ({extractor})", FIDS, "linear"),
    ("chains", ("chain_displacement", "chain_step_size"), "log"),
    (
        "robust objective",
        ("positive_weight", "effective_sample_fraction", "effective_positive_fraction"),
        "linear",
    ),
)

SAMPLES = {
    "short": "chains as in training",
    "fresh": "long chains",
    "buffer": "replay buffer",
    "starts": "where the long chains started",
}
"""Titles of images, by their names."""


def draw(workdir: Path, config: Config) -> None:
    """Draws ``plots/training.png``, everything the run logged; and ``chains.png`` if profiled."""
    panels(workdir / "plots" / "training.png", read_rows(workdir), PANELS, config)
    chain_profiles.draw(workdir)


def evaluated(
    workdir: Path, images: dict[str, np.ndarray], energies: dict[str, np.ndarray]
) -> None:
    """Draws ``eval_samples.png``, if there are images, and ``eval_energies.png``."""
    plots = workdir / "plots"
    if images:
        with figure(plots / "eval_samples.png", 1, len(images), size=(4.2, 4.8)) as (axes,):
            for axis, (name, shown) in zip(axes, images.items(), strict=True):
                tiles(axis, shown[:100], 10, SAMPLES[name])
    with figure(plots / "eval_energies.png", size=(6, 4)) as ((axis,),):
        histograms(axis, energies)
        axis.set(xlabel="energy, nats")
        legend(axis)
