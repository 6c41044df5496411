"""Latent EBM with thermodynamic integration on CelebA at 64x64, as in the thesis.

Claim: the schedule exponent p shapes the variance of the learning gradient and with it the quality
of the samples (KID_inf is best near p = 6; p <= 1 collapses).
Paper: thermodynamic-integration thesis, Tables 3 and 5 (generator as ConvGenerator corrects it).
Command:
  python experiments/run.py --config=configs/thermo_celeba.py --config.data.path=FOLDER
FOLDER holds the prepared celeb_a of tensorflow-datasets. Without --config.data.path it is
looked for in ~/tensorflow_datasets and, if the network allows, prepared there.
Hardware: an accelerator, for the thesis's size.
Expected numbers: not yet run at the thesis's size.

Variants:
- "": the thesis's model with the `tempered` estimator; vanilla: without powers.
- frozen_prior: the gradient of the thesis's public code.
- through_chain: the gradient that its text describes, through the chains, without the divergences,
  for which one chain an image is too few.
- smoke: a model 64 times smaller for a few steps, to try the path on a CPU.
Five repeats as in the thesis: --config.train.num_repeats=5. Its sweeps: studies/thermo_images.py.
Batches are 72 for the thesis's 75, so that 8 devices share them.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.latent.fields import configure
from ebmjax.recipes.models.latent.variants import SMALL_SMOKE, THESIS, widths

BASE: dict[str, Any] = {
    **THESIS,
    "data.name": "celeb_a",
    "data.image_size": 64,
    "model.latent_dim": 80,
    "eval.evidence.num_chains": 240,
    **widths(64, 16, 8, 4, 2),
}
VARIANTS = {
    "frozen_prior": {"loss.name": "frozen_prior"},
    "through_chain": {"loss.name": "through_chain", "loss.kl_weight": 0.0},
    "smoke": {**SMALL_SMOKE, **widths(8, 16, 8, 4, 2)},
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
