"""Non-convergent short-run energy on CIFAR-10, with the robust objective.

Claim: chains of 100 steps from noise become images although the learned density is wrong. The
robust objective cannot train with beta from 0.1 on, because no short chain reaches the density of
the data (robust-objective paper, section 4.2 and appendix L).
Paper: Nijkamp et al. 2019 (short-run MCMC) and that appendix: step 1 on f with noise 0.01 (so the
output scale is 20000), uniform starts, data with noise 0.03. The network is ``ResidualEnergy``
without spectral norm, not their plain convolutions.
Expected numbers: not yet run, except "cpu" (2026-11-22): docs/results/shortrun_cifar10.md.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import SMOKE, configure

igebm_cifar10 = project("configs.igebm_cifar10")

BASE: dict[str, Any] = {
    **igebm_cifar10.BASE,
    "data.noise_scale": 0.03,
    "data.dequantise": False,
    "model.features": (64, 128, 256, 512),
    "model.depth": 1,
    "model.spectral_norm": None,
    "sampler.sgld.step_size": 1.0,
    "sampler.sgld.noise_scale": 0.01,
    "sampler.num_steps": 100,
    "sampler.num_samples": 64,
    "sampler.box": "none",
    "sampler.max_score": None,
    "sampler.buffer.size": None,
    "loss.name": "beta",
    "loss.output_scale": 2e4,
    "loss.energy_l2": 0.0,
    "optimizer.learning_rate": 1e-4,
    "optimizer.b1": 0.9,
    "optimizer.max_norm": None,
    "optimizer.average_decay": 0.0,
    "train.num_epochs": 128,
    "train.batch_size": 64,
    "evals.every_epochs": 10,
}
CPU: dict[str, Any] = {
    **igebm_cifar10.SMALL,
    "sampler.buffer.size": None,
    "sampler.num_steps": 50,
    "train.num_epochs": 6,
}
BETAS: dict[str, dict[str, Any]] = {
    "beta_1e6": {"loss.beta": 1e-6},
    "beta_1e5": {"loss.beta": 1e-5},
    "beta_1e4": {"loss.beta": 1e-4},
    "beta_001": {"loss.beta": 0.01},
    "beta_01": {"loss.beta": 0.1},
}
VARIANTS = {
    **BETAS,
    "cpu": CPU,
    **{f"cpu_{name}": CPU | changes for name, changes in BETAS.items()},
    "smoke": SMOKE["energy"] | {"sampler.buffer.size": None},
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
