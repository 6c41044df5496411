"""Latent EBM prior with vanilla maximum likelihood on SVHN at 32x32, as published.

Claim: short-run chains of 60 steps on the prior and 20 on the posterior train a latent EBM whose
samples beat a Gaussian prior's. The paper's FID is 29.4, of 50,000 samples
(--config.evals.generation.num_images=50000); here it is of 10,000, extrapolated.
Paper: Pang et al. 2020 and its public code: all 73,257 training images, batch 100 (here 104, which
8 devices share), z of 100 dimensions, prior z-200-200-1 with GELU, generator z -> 512 -> 256 -> 128
-> 3, Xavier normal weights. Their step s is a drift s^2 / 2 here: 0.08 (s = 0.4) and 0.005 (s =
0.1). Their generator loss drops the factor 1 / (2 sigma^2), which does not change Adam's steps.
Expected numbers: not yet run.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.latent.fields import SMALL_SMOKE, configure

BASE: dict[str, Any] = {
    "loss.name": "vanilla",
    "data.name": "svhn_cropped",
    "data.image_size": 32,
    "data.num_classes": 10,
    "data.max_train": 73_257,
    "data.max_test": 26_032,
    "model.latent_dim": 100,
    "model.generator_features": (512, 256, 128),
    "model.prior_hidden": (200, 200),
    "model.prior_activation": "gelu",
    "model.generator_init": "xavier_normal",
    "sampler.prior.step_size": 0.08,
    "sampler.posterior.step_size": 0.005,
    "optimizer.decay_per_epoch": 0.998,
    "optimizer.prior.learning_rate": 2e-5,
    "optimizer.prior.final_learning_rate": 1e-6,
    "optimizer.generator.learning_rate": 1e-4,
    "optimizer.generator.final_learning_rate": 1e-6,
    "train.num_epochs": 200,
    "train.batch_size": 104,
    "train.log_every": 20,
    "train.checkpoint_every_epochs": 5,
    "evals.every_epochs": 20,
    "evals.reconstruction.num_images": 300,
    "evals.evidence.num_images": 4,
    "evals.evidence.num_chains": 304,
    "evals.generation.num_images": 10_000,
}
VARIANTS = {"smoke": {**SMALL_SMOKE, "model.generator_features": (64, 32, 16)}}
get_config = partial(configure, base=BASE, variants=VARIANTS)
