"""Latent EBM prior of your own images, with labels or without, and without a step to choose.

Claim: a generator with a learned prior trains on images of 8 to 32 pixels without divergence,
whatever the images.
Paper: Pang et al. 2020 with short-run chains of 60 and 20 steps, at a CPU's size: the prior is
z-100-100-1 over 32 latents, the generator has stages of 64 and 32 channels.
Command:
  python experiments/run.py --config=configs/latent.py --config.data.name=npz --config.data.path=NPZ
Hardware: 2 CPU cores, or one GPU.
Expected numbers (2026-11-26, seed 0): 4,000 images of MNIST, squared error 0.024 a pixel, FID of
500 samples 217, of their starts 786. More: docs/results/own_data.md.

The images decide on train.num_epochs, on the intervals of checkpoints and evaluations, and on
eval.num_test (docs/data.md). A field on the command line wins. Without data.name it trains on the
packaged digits.

Variants:
- vanilla: the base itself; smoke: a few steps.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.latent.fields import VANILLA, configure

BASE: dict[str, Any] = {
    **VANILLA,
    "data.image_size": None,
    "data.num_classes": None,
    "data.max_train": None,
    "data.max_test": None,
    "model.latent_dim": 32,
    "model.generator_features": (64, 32),
    "sampler.prior.step_size": 0.08,
    "sampler.posterior.step_size": 0.01,
    "optimizer.decay_per_epoch": 1.0,
    "train.num_epochs": None,
    "train.batch_size": 32,
    "train.steps_per_dispatch": 5,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": None,
    "train.on_divergence": "recover",
    "mesh.num_shards": 1,
    "eval.every_epochs": None,
    "eval.num_test": None,
    "eval.generation.num_images": 1000,
    "eval.generation.smallest_num": 100,
    "eval.gradient_variance.num_gradients": 2,
    "eval.evidence.num_images": 8,
    "eval.evidence.num_chains": 16,
    "eval.evidence.divergences": False,
}
get_config = partial(configure, base=BASE, variants={})
