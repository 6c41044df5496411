"""Energy of your own images, with labels or without, and without a step to choose.

Claim: an energy of images of 8 to 32 pixels trains without divergence, whatever the images.
Paper: Du & Mordatch 2019 (IGEBM) with its step and noise, as in igebm_cifar10.py:cpu, at a CPU's
size: two stages of 16 and 32 channels, K = 20, a buffer of 1,000, chains in [-1, 1].
Command:
  python experiments/run.py --config=configs/image.py --config.data.name=npz --config.data.path=FILE
Hardware: 2 CPU cores, or one GPU.
Expected numbers (2026-11-26, seed 0): 4,000 images of MNIST, FID of fresh chains 2,249, of their
starts 24,518, of test images 6. More: docs/results/own_data.md.

The images decide on train.num_epochs and on the intervals of checkpoints and evaluations
(docs/data.md). A field on the command line wins. Without data.name it trains on the packaged
digits.

Variants:
- smoke: a few steps.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import beside
from ebmjax.recipes.models.energy.fields import configure

BASE: dict[str, Any] = {
    "data.image_size": None,
    "data.num_classes": None,
    "data.max_train": None,
    "data.max_test": None,
    "data.noise_scale": 0.0,
    "data.dequantise": True,
    **beside(__file__, "igebm_cifar10.py").langevin(10.0, 0.005),
    "sampler.num_steps": 20,
    "sampler.num_samples": 32,
    "sampler.low": -1.0,
    "sampler.high": 1.0,
    "sampler.max_score": 0.005,
    "sampler.buffer.size": 1000,
    "loss.energy_l2": 1.0,
    "optimizer.max_norm": 0.5,
    "train.num_epochs": None,
    "train.batch_size": 32,
    "train.steps_per_dispatch": 5,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": None,
    "train.on_divergence": "recover",
    "eval.every_epochs": None,
}
get_config = partial(configure, base=BASE, variants={})
