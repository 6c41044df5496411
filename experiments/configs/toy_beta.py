"""The robust objective on points: a weighted Gaussian mixture and circles, one beta a run.

Claim: with short chains from noise, beta = 0 learns a density far from the data's, although the
ends of the chains resemble the data. A larger beta brings the learned density closer.
Paper: robust-objective paper, section 4.1, appendix K, Figures 2 and 5-11. Not in it: the mixture's
weights are 1 to 8; alpha is 5e-4 with 20 steps; training takes a fifth of the 100,000 updates at a
tenfold rate; points are drawn once; circles have 20 steps and 100 negatives (Figure 11 has 100).
Expected numbers (2026-11-22, five seeds): docs/results/toy_beta.md.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.energy.fields import POINTS, configure

ALPHA = 5e-4
"""Variance of the noise of the paper's chains."""


def langevin(alpha: float) -> dict[str, Any]:
    """The paper's Eq. 4 with noise of variance alpha, for a drift of the network's own gradient."""
    step = {"sampler.sgld.step_size": 1.0, "sampler.sgld.temperature": alpha / 2}
    return {**step, "loss.output_scale": 2 / alpha}


def shift_starts(scale: float) -> dict[str, Any]:
    """Chains from the bottom right, half as wide as by default."""
    return {
        "sampler.buffer.start_mean": (scale, -scale),
        "sampler.buffer.start_scale": scale / 2,
        **langevin(10 * ALPHA),
    }


BASE: dict[str, Any] = {
    **POINTS,
    "data.name": "gmm",
    "data.max_train": 50_000,
    "sampler.num_samples": 20,
    "sampler.num_steps": 20,
    **langevin(ALPHA),
    "loss.name": "beta",
    "loss.beta": 0.1,
    "train.num_epochs": 20,
    "train.batch_size": 50,
    "train.steps_per_dispatch": 500,
    "train.log_every": 100,
    "train.max_abs_loss": 1e3,
    "evals.every_epochs": 5,
}
CIRCLES = {
    "data.name": "circles",
    "sampler.num_samples": 100,
    "sampler.buffer.start_scale": 2.0,
    "train.num_epochs": 40,
    "train.batch_size": 100,
    "train.checkpoint_every_epochs": 40,
    "evals.every_epochs": 10,
    "evals.density.bandwidth": 0.075,
    "evals.density.half_width": 5.0,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "restricted": {"sampler.num_samples": 3, "sampler.num_steps": 3},
    # The step is too small to move a chain, so that the negative is a draw of the start.
    "degenerate": {
        "sampler.num_samples": 1,
        "sampler.num_steps": 1,
        "sampler.sgld.step_size": 1e-30,
        "sampler.sgld.temperature": 1e-30,
    },
    "schedule": {"loss.beta_start": 0.0},
}
VARIANTS = {
    "long": {"train.num_epochs": 40},
    "shifted": shift_starts(1.0),
    **SETTINGS,
    "circles": CIRCLES,
    "circles_long": CIRCLES | {"train.num_epochs": 80},
    "circles_shifted": CIRCLES | shift_starts(2.0),
    **{f"circles_{name}": CIRCLES | changes for name, changes in SETTINGS.items()},
    "smoke": {
        "data.max_train": 500,
        "data.max_test": 100,
        "model.hidden": (8, 8),
        "sampler.num_steps": 2,
        "sampler.num_samples": 4,
        "loss.beta": 0.5,
        "train.num_epochs": 2,
        "train.steps_per_dispatch": 5,
        "train.log_every": 5,
        "train.checkpoint_every_epochs": 1,
        "evals.every_epochs": 0,
        "evals.density.num_samples": 200,
        "evals.density.grid_points": 80,
    },
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
