"""Latent EBM with thermodynamic integration on CelebA at 64x64, as in the thesis.

Claim: the schedule exponent p shapes the variance of the learning gradient and with it the quality
of the samples (KID_inf is best near p = 6; p <= 1 collapses).
Paper: thermodynamic-integration thesis, Tables 3 and 5 (generator as ConvGenerator corrects it).
Batches are those of thermo_cifar10.py. Other estimators are --config.loss.name.
Expected numbers: not yet run at the thesis's size.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.latent.fields import SMALL_SMOKE, configure

thermo_cifar10 = project("configs.thermo_cifar10")

BASE: dict[str, Any] = {
    **thermo_cifar10.THESIS,
    "data.name": "celeb_a",
    "data.image_size": 64,
    "model.latent_dim": 80,
    "evals.evidence.num_chains": 240,
    "model.generator_features": (1024, 512, 256, 128),
}
VARIANTS = {"smoke": {**SMALL_SMOKE, "model.generator_features": (32, 16, 8, 8)}}
get_config = partial(configure, base=BASE, variants=VARIANTS)
