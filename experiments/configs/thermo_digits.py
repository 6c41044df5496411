"""Latent EBM with thermodynamic integration on scikit-learn's packaged 8x8 digits.

Claim: thermodynamic integration learns better than vanilla learning. It does not here. The path of
the thesis does run end to end on real data, and its samples become digits
(docs/results/thermo_study.md).
Paper: thermodynamic-integration thesis. The generator has one hidden layer (z -> 4x4x64 -> 8x8), z
has 16 dimensions, and the learning rates are ten times the thesis's. Posterior steps are 0.04
instead of 0.01: 20 of the shorter steps from N(0, I) do not arrive (seed 0: squared error 0.101
instead of 0.061). Variants are the estimators of docs/latent.md.
Expected numbers (2026-11-22, seeds 0-2, mean +- standard deviation): log evidence of 32 test images
-21.4 +- 0.5 nats, "vanilla" -15.9 +- 0.1, in 95 and 50 s of 2 CPU cores. More:
docs/results/thermo_digits.md.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.latent.fields import SMOKE, configure

BASE: dict[str, Any] = {}
VARIANTS = {
    "telescoped": {"loss.name": "telescoped"},
    "covariance": {"loss.name": "covariance", "loss.chains_per_observation": 4},
    "through_chain": {"loss.name": "through_chain"},
    "frozen_prior": {"loss.name": "frozen_prior"},
    "vanilla_smoke": {**SMOKE, "loss.name": "vanilla"},
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
