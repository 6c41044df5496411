"""Joint energy model (JEM) on scikit-learn's packaged 8x8 digits.

Claim: a classifier trained as an energy-based model keeps its accuracy and gains calibration (JEM).
Preconditioning and MALA do as well as SGLD (sampling-approaches thesis 4.2.2). A beta above 0
removes the divergence that beta 0 has (robust-objective paper, appendix M).
Paper: JEM (Grathwohl et al. 2020) as those documents use it: WRN-10-1, K = 10, Adam at 5e-3 and no
augmentation. The base confines chains to [-1.2, 1.2] and penalises squared energies, which JEM
does not. Without both ("unconfined") training diverges.
Expected numbers (2026-11-21, seeds 0-4): accuracy 98.9 +- 0.2 %, ECE 2.1 +- 0.2 %, in a minute of 2
CPU cores. More: docs/results/jem_digits.md.

Variants: mala_literal has the ratio that the thesis prints; unaugmented crops for the labels alone;
beta_B is unconfined with exponent B in the weights (beta = B / 20000); settings/joint.py has the
paper's other scenarios.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

joint = project("settings.joint")

BASE = {
    **joint.SAMPLERS,
    "mesh.num_shards": 2,
    "data.crop_padding": 0,
    "sampler.box": "clamp",
    "sampler.low": -1.2,
    "sampler.high": 1.2,
    "loss.energy_l2": 0.01,
}

ATTACK = {"loss.attack.radius": 32.0, "loss.attack.num_steps": 5}

VARIANTS = {
    "softmax": {"loss.generative_weight": 0.0},
    "softmax_sam": {"loss.generative_weight": 0.0, "optimizer.rho": 0.05},
    "sam": {"optimizer.rho": 0.05},
    "augmented": {"data.crop_padding": 1},
    "unaugmented": {"data.crop_padding": 1, "data.augment_positives": False},
    "psgld": {"sampler.name": "psgld", "sampler.psgld.decay": 0.99},
    "mala": {"sampler.name": "mala", "sampler.box": "reject"},
    "mala_literal": {"sampler.name": "literal/mala.py:literal_mala"},
    "hmc": {"sampler.name": "hmc", "sampler.box": "reject"},
    "dat": {"loss.name": "dat", **ATTACK},
    "eb_jdat": {"loss.name": "eb_jdat", **ATTACK},
    "unconfined": joint.DEFAULT,
    **joint.scenario_variants(learning_rate=5e-3),
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
