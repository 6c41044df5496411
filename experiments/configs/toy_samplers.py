"""One energy of points, four Gaussians, and eight samplers that follow it.

Claim: gradient descent is no sampler, Langevin dynamics is one, and MALA and preconditioned
Langevin dynamics mix better. The thesis's R-hat over 10 chains of 5,000 steps of 0.01 is 2891.63,
19.21, 6.46 and 6.49 in this order (sampling-approaches thesis, section 4.1).
Paper: data, starts of the chains, Alg. 1 and the variant "thesis" are the thesis's. It names no
network and no L2 weight, and does not say how long the chains of training are.
Chosen here: a 2-32-64-64-64-1 network, training chains of 100 steps of 0.1, batches of 100, and an
energy L2 of 0.05. Of five weights tried on one seed, 0.05 gave the learned density nearest to the
data's (R-hat was not looked at). The "tuned" steps are what one would use, found on one seed:
- Langevin dynamics: a tenth of the modes' variance. MALA: an acceptance of 0.7.
- HMC: trajectories across a mode. Tempered MALA: a step at which it does raise its temperature.
Command:
  python experiments/run.py --config=configs/toy_samplers.py --mode=all
Hardware: 2 CPU cores. One run takes 63 s of processor time, compilation included; the study's 5
seeds take 197 s.
Expected numbers (2026-11-21, 5 seeds, mean and standard deviation): total variation of the learned
density from the data's 0.128 ± 0.023. Classic R-hat of MALA with the thesis's step 6.42 ± 0.92, of
independent draws that each keep to one mode 7.65 ± 0.34. More: docs/results/toy_samplers.md.
Chains do not cross between modes, so R-hat tells two things: which modes the starts fell to, and
how many chains are still on the way. Two exceptions: one of HMC's 50 chains crossed once, and those
of tempered MALA cross at a temperature of 10, which is another density. With "near", where chains
cross, R-hat is 1.00 to 1.04 for tuned HMC, MALA, pSGLD and SGLD (5 seeds).

Variants:
- near: means 3 from the origin instead of 10, so that chains can cross.
- weak_l2: an energy L2 of 0.001, so that chains cannot cross at all.
- persistent: training chains go on where they stood.
- thesis: training chains of 5,000 steps of 0.01 from all points, one update an epoch. Takes hours.
- smoke: a few steps, to see that everything runs.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.energy.fields import POINTS, configure, steps_of

BASE: dict[str, Any] = {
    **POINTS,
    "data.name": "gaussians",
    "data.max_train": 1000,
    "model.activation": "swish",
    **steps_of(0.1),
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
    "eval.every_epochs": 50,
    "eval.density.half_width": 30.0,
    "eval.density.grid_points": 300,
    "eval.density.num_samples": 2000,
    "eval.density.bandwidth": 0.5,
    "eval.comparison.every": "end",
}
VARIANTS = {
    "near": {
        "data.radius": 3.0,
        "sampler.buffer.start_scale": 4.0,
        "eval.density.half_width": 10.0,
        "eval.density.grid_points": 100,
    },
    "weak_l2": {"loss.energy_l2": 1e-3},
    "persistent": {"sampler.buffer.size": 1000},
    "thesis": {
        **steps_of(0.01),
        "sampler.num_samples": 1000,
        "sampler.num_steps": 5000,
        "train.batch_size": 1000,
        "train.steps_per_dispatch": 5,
        "train.log_every": 1,
        "train.checkpoint_every_epochs": 50,
    },
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
        "eval.every_epochs": 2,
        "eval.density.grid_points": 60,
        "eval.density.num_samples": 40,
        "eval.density.bandwidth": 1.0,
        "eval.comparison.num_chains": 4,
        "eval.comparison.num_steps": 60,
        "eval.comparison.burn_in": 20,
    },
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
