"""One energy of points, four Gaussians, and eight samplers that follow it.

Claim: gradient descent is no sampler, Langevin dynamics is one, and MALA and preconditioned
Langevin dynamics mix better: R-hat 2891.63, 19.21, 6.46 and 6.49 in this order.
Paper: sampling-approaches thesis, section 4.1. It names no network and no L2 weight; here they are
2-32-64-64-64-1 and 0.05, with training chains of 100 steps of 0.1. The "tuned" steps are what one
would use, found on one seed. Chains can cross between "near" modes, and not at all at "weak_l2".
Expected numbers (2026-11-21, 5 seeds): docs/results/toy_samplers.md. 2 CPU cores take a minute.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.energy.fields import POINTS, configure
from ebmjax.recipes.parts.samplers import PLAIN

BASE: dict[str, Any] = {
    **POINTS,
    "data.name": "gaussians",
    "data.max_train": 1000,
    "model.activation": "swish",
    **{f"sampler.{name}.step_size": 0.1 for name in PLAIN},
    "sampler.num_samples": 100,
    "sampler.num_steps": 100,
    "sampler.buffer.start": "data",
    "sampler.buffer.start_scale": 15.0,
    "loss.energy_l2": 0.05,
    "train.num_epochs": 300,
    "train.batch_size": 100,
    "train.steps_per_dispatch": 100,
    "train.log_every": 50,
    "train.checkpoint_every_epochs": 300,
    "train.max_abs_loss": 1e4,
    "evals.every_epochs": 50,
    "evals.density.half_width": 30.0,
    "evals.density.grid_points": 300,
    "evals.density.num_samples": 2000,
    "evals.density.bandwidth": 0.5,
    "evals.comparison.every": "end",
}
VARIANTS = {
    "near": {
        "data.radius": 3.0,
        "sampler.buffer.start_scale": 4.0,
        "evals.density.half_width": 10.0,
        "evals.density.grid_points": 100,
    },
    "weak_l2": {"loss.energy_l2": 1e-3},
    "persistent": {"sampler.buffer.size": 1000},
    "smoke": {
        "data.max_train": 200,
        "data.max_test": 50,
        "model.hidden": (8, 8),
        "sampler.num_steps": 3,
        "sampler.num_samples": 50,
        "train.num_epochs": 4,
        "train.batch_size": 50,
        "train.steps_per_dispatch": 4,
        "train.log_every": 4,
        "train.checkpoint_every_epochs": 4,
        "evals.every_epochs": 0,
        "evals.density.grid_points": 60,
        "evals.density.num_samples": 40,
        "evals.density.bandwidth": 1.0,
        "evals.comparison.num_chains": 4,
        "evals.comparison.num_steps": 60,
    },
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
