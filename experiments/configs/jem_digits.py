"""Joint energy model (JEM) on scikit-learn's packaged 8x8 digits.

Claim: a classifier trained as an energy-based model keeps its accuracy and gains calibration (JEM).
Preconditioning and MALA do as well as SGLD (sampling-approaches thesis 4.2.2; it does not hold for
MALA). A beta above 0 removes the divergence that beta 0 has (robust-objective paper, appendix M).
Paper: JEM (Grathwohl et al. 2020) as those documents use it: no normalisation, no box, step 1 with
noise 0.01 (temperature 5e-5). Here: WRN-10-1, K = 10, and Adam at 5e-3, stepped down twice. There
is no augmentation, since one pixel of eight is a large shift. The base confines chains to [-1.2,
1.2] and penalises squared energies with weight 0.01, which JEM does not. Without both
("unconfined") training diverges.
Command:
  python experiments/run.py --config=configs/jem_digits.py
Hardware: 2 CPU cores; 40 s of training on one of them, and compiling.
Expected numbers (2026-11-21, seeds 0-4, mean +- standard deviation over seeds): accuracy 98.9 +-
0.2 %, ECE 2.1 +- 0.2 %, NLL 0.039 +- 0.003 nats. The 357 test images add at least 0.5 points of
accuracy, 0.4 of ECE and 0.01 nats. Most variants: docs/results/jem_digits.md.

Variants:
- psgld: decay 0.99, which the thesis has for points and was measured (its image form has 0.9).
- mala, tempered_mala, hmc: at temperature 5e-4.
- mala_literal: SGLD's step and noise by the accept ratio that the thesis prints.
- softmax: the classifier alone; sam; softmax_sam.
- augmented: crops of one pixel; unaugmented: crops for the labels, p(x) on plain images.
- conditional: chains of p(x, y).
- unconfined (JEM itself), steps_5, negatives_8, scale_2, scale_half, step_4, step_quarter: the
  robust-objective paper's seven scenarios; each also with exponent 2 (_beta_2) and with the
  exponents that the paper found best.
- beta_B: unconfined with exponent B in the weights (beta = B / 20000).
- step_4 also has a quarter of the output scale and of the learning rate, as in the paper: four
  times alpha is then twice the noise at the same drift.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.joint.fields import configure

joint = project("settings.joint")

BASE = {
    "mesh.num_shards": 2,
    "data.crop_padding": 0,
    "sampler.box": "clamp",
    "sampler.low": -1.2,
    "sampler.high": 1.2,
    "loss.energy_l2": 0.01,
}


VARIANTS = {
    "softmax": {"loss.generative_weight": 0.0},
    "softmax_sam": {"loss.generative_weight": 0.0, "optimizer.rho": 0.05},
    "sam": {"optimizer.rho": 0.05},
    "augmented": {"data.crop_padding": 1},
    "unaugmented": {"data.crop_padding": 1, "data.augment_positives": False},
    "conditional": {"loss.is_conditional": True},
    "psgld": {"sampler.name": "psgld", "sampler.psgld.decay": 0.99},
    "mala": {"sampler.name": "mala", "sampler.box": "reject"},
    "mala_literal": {"sampler.name": "literal/mala.py:literal_mala"},
    "tempered_mala": {"sampler.name": "tempered_mala", "sampler.box": "reject"},
    "hmc": {"sampler.name": "hmc", "sampler.box": "reject"},
    "unconfined": joint.DEFAULT,
    **joint.scenario_variants(learning_rate=5e-3),
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
