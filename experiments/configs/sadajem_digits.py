"""SADA-JEM on scikit-learn's packaged 8x8 digits.

Claim: sharpness-aware minimisation and p(x) without augmentation bring a joint energy model near
the classifier's accuracy and to better samples. Larger K gives accuracy, smaller K better samples.
Paper: SADA-JEM, with WRN-10-1, Adam at 5e-3, a crop of one pixel without flip, group normalisation,
so that chains do not depend on each other, and a penalty of 0.01 on squared energies.
Expected numbers (2026-11-21, seeds 0-4): accuracy 98.7 +- 0.3 %, ECE 3.5 +- 0.1 %, in two minutes
of 2 CPU cores. More: docs/results/sadajem_digits.md.

Variants: rows of the paper's Table 5 ("jem" to "sadajem") lack the penalty, but for
jempp_unaugmented_l2; those of Table 6 ("sam_R", "asam_R") have it. "literal" is the published code:
batch statistics everywhere, ASAM with radius 2, no penalty.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

joint = project("settings.joint")

BASE = {
    **joint.SAMPLERS,
    "mesh.num_shards": 2,
    "data.augment_positives": False,
    "data.noise_scale": 0.0,
    "model.norm": "group",
    "sampler.name": "proximal_sgld",
    "sampler.box": "clamp",
    "sampler.buffer.start": "informative",
    "loss.energy_l2": 0.01,
    "optimizer.rho": 0.05,
}
UNPENALISED = {"loss.energy_l2": 0.0}
JEMPP = UNPENALISED | {"data.augment_positives": True, "optimizer.rho": None}
PUBLISHED = UNPENALISED | {"model.norm": "batch"}
JEM = JEMPP | {
    "data.noise_scale": 0.03,
    "model.norm": "none",
    "sampler.name": "sgld",
    "sampler.box": "none",
    "sampler.buffer.start": "uniform",
}
VARIANTS = {
    "k5": {"sampler.num_steps": 5},
    "k20": {"sampler.num_steps": 20},
    "jem": JEM,
    "jem_sam": JEM | {"optimizer.rho": 0.05},
    "jempp": JEMPP,
    "jempp_sam": JEMPP | {"optimizer.rho": 0.05},
    "jempp_unaugmented": UNPENALISED | {"optimizer.rho": None},
    "jempp_unaugmented_l2": {"optimizer.rho": None},
    "sadajem": UNPENALISED,
    **joint.RADII,
    "batch": {"model.norm": "batch"},
    "literal": PUBLISHED | joint.RADII["asam_2"] | {"model.norm_policy": "sada_jem"},
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
