"""Latent EBM prior of your own images, with labels or without, and without a step to choose.

Claim: a generator with a learned prior trains on images of 8 to 32 pixels, whatever the images.
Paper: Pang et al. 2020, with a dense generator, which is cheap on a CPU. The chains of a posterior
persist and start at the principal components of their image. The likelihood's scale follows the
images' variance, so one step suits all sets. Chains of the prior are cold (T = 0.01) and persist.
Expected numbers (2026-11-27, seed 0): docs/results/own_data.md.

What is None the images decide (docs/data.md), and a field on the command line wins. Without
data.name it trains on the packaged digits.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.latent.fields import configure

BASE: dict[str, Any] = {
    "loss.name": "vanilla",
    "data.image_size": None,
    "data.num_classes": None,
    "data.max_train": None,
    "data.max_test": None,
    "model.latent_dim": 32,
    "model.generator": "dense",
    "model.prior_hidden": (400, 400),
    "model.prior_activation": "swish",
    "model.likelihood_scale": None,
    "sampler.persistent": True,
    "sampler.reinit_prob": 0.2,
    "sampler.prior.num_steps": 10,
    "sampler.prior.step_size": 0.03,
    "sampler.prior.temperature": 0.01,
    "sampler.posterior.num_steps": 5,
    "sampler.posterior.step_size": 3e-4,
    "sampler.posterior.start": "components",
    "optimizer.decay_per_epoch": None,
    "optimizer.average_decay": 0.99,
    "optimizer.prior.learning_rate": None,
    "optimizer.prior.final_learning_rate": 2e-4,
    "optimizer.generator.final_learning_rate": 1e-4,
    "train.num_epochs": None,
    "train.batch_size": 64,
    "train.steps_per_dispatch": 5,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": None,
    "train.on_divergence": "recover",
    "mesh.num_shards": 1,
    "evals.every_epochs": None,
    "evals.reconstruction.num_images": 64,
    "evals.num_chain_steps": 50,
    "evals.gradient_variance.num_gradients": 2,
    "evals.evidence.num_images": 8,
    "evals.evidence.num_chains": 16,
}
get_config = partial(configure, base=BASE, variants={})
