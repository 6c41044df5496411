"""SADA-JEM on CIFAR-10.

Claim: 96.0 % accuracy, IS 8.63 and FID 11.4 with K = 10; 95.5 / 8.77 / 9.41 with K = 5; 96.1 /
8.40 / 13.1 with K = 20. ECE is 2.04 %. The classifier alone has 96.2 %, with SAM 97.2 %.
Paper: SADA-JEM, Tables 1, 2, 5, 6 and 7: WRN-28-10 with batch normalisation, SAM with radius 0.2,
proximal SGLD without noise, p(x) on images without augmentation. SGD's rate is stepped down. The
paper does not give the recipe of the classifier alone.
Expected numbers: not yet run at the paper's size. "cpu": docs/results/jem_cifar10.md.

Variants: rows of Table 5 ("jempp...") have the base's proximal SGLD and recipe, those of Table 6
("sam_R", "asam_R") its radii. "literal" is the published code: asam_2, and running averages that
include samples.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

joint = project("settings.joint")

BASE = {
    **joint.CIFAR,
    **joint.SGD,
    "data.augment_positives": False,
    "data.noise_scale": 0.0,
    "model.norm": "batch",
    "sampler.name": "proximal_sgld",
    "sampler.box": "clamp",
    "sampler.buffer.start": "informative",
    "optimizer.rho": 0.2,
    "train.batch_size": 128,
}
JEMPP = {"data.augment_positives": True, "optimizer.rho": None}
UNAUGMENTED = {"optimizer.rho": None}
VARIANTS = {
    "k5": {"sampler.num_steps": 5},
    "k20": {"sampler.num_steps": 20},
    "softmax": {"loss.generative_weight": 0.0, "optimizer.rho": None},
    "softmax_sam": {"loss.generative_weight": 0.0},
    "jempp": JEMPP,
    "jempp_sam": JEMPP | {"optimizer.rho": 0.2},
    "jempp_unaugmented": UNAUGMENTED,
    "jempp_unaugmented_l2": UNAUGMENTED | {"loss.energy_l2": 0.01},
    "literal": joint.RADII["asam_2"] | {"model.norm_policy": "sada_jem"},
    **joint.RADII,
    "cpu": joint.CPU | {"optimizer.rho": 0.05},
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
