"""Joint energy model (JEM) on CIFAR-10, with the published code's settings.

These are K = 20 steps of 1 with noise 0.01 without a box, 10,000 chains of which 5 % start anew
from U(-1, 1), and Adam at 1e-4. All 50,000 training images are used; the code holds out 5,000. The
code stops at a loss beyond 1e8; here a step beyond 1e5 (train.max_abs_loss) is skipped, and too
many in a row end the run.

Claim: 92.9 % accuracy and FID 38.4 (SADA-JEM's tables). The sampler matters little (sampling-
approaches thesis: SGLD 0.89 / 57.1, pSGLD 0.89 / 59.4, MALA 0.88 / 56.4). With beta above 0
training does not diverge (robust-objective paper: 91.7 % at exponent 4 against 90.5 %).
Paper: JEM (Grathwohl et al. 2020); thesis 4.2.2; robust-objective paper, 4.3 and appendix M.
Expected numbers: not yet run.

Variants: mala_literal has the ratio that the thesis prints; k10 and k10_sam are of SADA-JEM's Table
5 (89.5 % / 36.2 and 90.1 % / 35.0); softmax is of its Fig. 4(a), without normalisation (ECE 5.5 %);
settings/joint.py has the robust-objective paper's scenarios.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

joint = project("settings.joint")

BASE = joint.CIFAR | {
    "sampler.num_steps": 20,
    "optimizer.learning_rate": 1e-4,
    "optimizer.warmup_steps": 1000,
    "optimizer.decay_epochs": (160, 180),
}


VARIANTS = {
    "psgld": {"sampler.name": "psgld"},
    "mala": {"sampler.name": "mala"},
    "mala_literal": {"sampler.name": "literal/mala.py:literal_mala"},
    "softmax": {"loss.generative_weight": 0.0},
    "k10": {"sampler.num_steps": 10},
    "k10_sam": {"sampler.num_steps": 10, "optimizer.rho": 0.2},
    **joint.scenario_variants(BASE["optimizer.learning_rate"]),
    "cpu": joint.CPU,
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
