"""Latent EBM with thermodynamic integration on CIFAR-10, as in the thesis.

Claim: the schedule exponent p shapes the variance of the learning gradient and with it the quality
of the samples (KID_inf is best near p = 6).
Paper: thermodynamic-integration thesis, Tables 4 and 5 (generator as ConvGenerator corrects it).
Batches are 72 for the thesis's 75, so that 8 devices share them.
Expected numbers: not yet run at the thesis's size. "cpu": docs/results/thermo_study.md.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.latent.fields import SMALL_SMOKE, configure

# For CelebA and CIFAR-10 alike (Tables 3-5).
THESIS: dict[str, Any] = {
    "data.max_train": 12_000,
    "data.max_test": 4_500,
    "data.num_classes": 0,
    "sampler.posterior.step_size": 0.01,
    "optimizer.decay_per_epoch": 0.975,
    "optimizer.prior.learning_rate": 2e-5,
    "optimizer.prior.final_learning_rate": 1e-5,
    "optimizer.generator.learning_rate": 1e-4,
    "optimizer.generator.final_learning_rate": 5e-5,
    "train.num_epochs": 50,
    "train.batch_size": 72,
    "train.steps_per_dispatch": 10,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": 1,
    "evals.every_epochs": 5,
    "evals.reconstruction.num_images": 300,
    "evals.evidence.num_images": 4,
    "evals.generation.num_images": 4_500,
}
BASE: dict[str, Any] = {
    **THESIS,
    "data.name": "cifar10",
    "data.image_size": 32,
    "data.num_classes": 10,
    "model.latent_dim": 100,
    "evals.evidence.num_chains": 304,
    "sampler.posterior.num_steps": 40,
    "model.generator_features": (1024, 512, 256),
}
CPU: dict[str, Any] = {
    "mesh.num_shards": 2,
    "model.generator_features": (128, 64, 32),
    "data.max_train": 2_000,
    "data.max_test": 300,
    "model.latent_dim": 32,
    "sampler.posterior.num_steps": 20,
    "loss.num_intervals": 5,
    "optimizer.prior.learning_rate": 2e-4,
    "optimizer.prior.final_learning_rate": 1e-4,
    "optimizer.generator.learning_rate": 1e-3,
    "optimizer.generator.final_learning_rate": 5e-4,
    "train.num_epochs": 6,
    "train.batch_size": 40,
    "evals.every_epochs": 2,
    "evals.reconstruction.num_images": 40,
    "evals.evidence.num_images": 2,
    "evals.evidence.num_chains": 96,
    "evals.gradient_variance.num_gradients": 2,
    "evals.generation.num_images": 1000,
}
VARIANTS = {
    "cpu": CPU,
    "cpu_vanilla": {**CPU, "loss.name": "vanilla"},
    "smoke": {**SMALL_SMOKE, "model.generator_features": (128, 64, 32)},
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
