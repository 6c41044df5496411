"""One energy of four Gaussians in the plane, and eight samplers that follow it.

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
density from the data's 0.128 ± 0.023. Classic R-hat with the thesis's step, after 1,000 steps of
burn-in:
  gradient descent  31.5  ± 17.0
  SGLD               6.91 ±  1.47
  pSGLD              3.47 ±  0.61
  MALA               6.42 ±  0.92  (it accepts 99.97 % at this step, so it is SGLD)
  independent draws  7.65 ±  0.34  (of chains that each keep to one mode)
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

from typing import Any

from ml_collections import ConfigDict

from ebmjax.recipes.core.variants import configure
from ebmjax.recipes.samplers import PLAIN, SHARED, sections, shared

SAMPLERS = (
    "gradient_descent",
    "sgld",
    "psgld",
    "mala",
    "tempered_mala",
    "svgd",
    "stochastic_svgd",
    "hmc",
)
# MALA and preconditioned Langevin dynamics as the thesis prints them: eval.samplers may name them.
PRINTED = ("literal_mala", "literal_psgld")


def setting(leapfrogs: int, **step_sizes: float) -> dict[str, Any]:
    """Every option of every sampler, given the step sizes and how many steps a move of HMC has.

    All at temperature 1.
    """
    steps = {f"{name}.step_size": step_size for name, step_size in step_sizes.items()}
    steps["hmc.num_integration_steps"] = leapfrogs
    return sections(PLAIN, steps, without=("noise_scale", "temperature"))


def defaults() -> ConfigDict:
    """Every field of the family "toy_samplers"."""
    config: Any = {
        "family": "toy_samplers",
        "seed": 0,
        "data": {"num_points": 1000, "radius": 10.0},
        "model": {"hidden": (32, 64, 64, 64), "activation": "swish"},
        "sampler": {
            **shared("sgld", 0.1),
            **sections(PLAIN, without=SHARED),
            "num_steps": 100,
            "start_scale": 15.0,
            "buffer_size": 0,
            "reinit_prob": 0.05,
        },
        "loss": {"energy_l2": 0.05},
        "optimizer": {
            "learning_rate": 1e-3,
            "final_learning_rate": 1e-4,
            "b1": 0.9,
            "b2": 0.999,
        },
        "train": {
            "num_epochs": 300,
            "batch_size": 100,
            "steps_per_dispatch": 100,
            "log_every": 50,
            "checkpoint_every_epochs": 300,
            "max_consecutive_skips": 20,
            "max_abs_loss": 1e4,
        },
        "mesh": {"num_shards": 1},
        "eval": {
            "every_epochs": 50.0,
            "half_width": 30.0,
            "grid_points": 300,
            "max_border_mass": 0.01,
            "samplers": SAMPLERS,
            "num_chains": 10,
            "num_steps": 5000,
            "burn_in": 1000,
            "num_samples": 2000,
            "num_frames": 40,
            "settings": {
                "thesis": setting(10, **dict.fromkeys((*SAMPLERS, *PRINTED), 0.01)),
                "tuned": setting(
                    3,
                    gradient_descent=0.5,
                    sgld=0.1,
                    psgld=0.1,
                    mala=1.0,
                    tempered_mala=2.0,
                    svgd=3.0,
                    stochastic_svgd=2.0,
                    hmc=0.2,
                    literal_mala=1.0,
                    literal_psgld=0.1,
                ),
            },
        },
    }
    return ConfigDict(config)


VARIANTS: dict[str, dict[str, Any]] = {
    "near": {
        "data.radius": 3.0,
        "sampler.start_scale": 4.0,
        "eval.half_width": 10.0,
        "eval.grid_points": 100,
    },
    "weak_l2": {"loss.energy_l2": 1e-3},
    "persistent": {"sampler.buffer_size": 1000},
    "thesis": {
        "sampler.step_size": 0.01,
        "sampler.num_steps": 5000,
        "train.batch_size": 1000,
        "train.steps_per_dispatch": 5,
        "train.log_every": 1,
        "train.checkpoint_every_epochs": 50,
    },
    "smoke": {
        "data.num_points": 200,
        "model.hidden": (8, 8),
        "sampler.num_steps": 3,
        "train.num_epochs": 4,
        "train.batch_size": 50,
        "train.steps_per_dispatch": 4,
        "train.log_every": 4,
        "train.checkpoint_every_epochs": 4,
        "eval.every_epochs": 2,
        "eval.grid_points": 60,
        "eval.num_chains": 4,
        "eval.num_steps": 60,
        "eval.burn_in": 20,
        "eval.num_samples": 40,
        "eval.num_frames": 3,
    },
}


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    return configure(defaults(), variant, {}, VARIANTS)
