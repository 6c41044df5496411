"""Joint energy model of your own images, without a step to choose.

Claim: a classifier of images of 8 to 32 pixels trains as an energy-based model without divergence,
whatever the images.
Paper: SADA-JEM with K = 5: the informative start and no augmentation of p(x). As in jem_digits.py,
noise 0.03 on images, chains with noise 0.01 in [-1.2, 1.2], and a penalty of 0.01 on squared
energies. Groups stand in place of batch normalisation. The network takes means over pixels, so a
pixel's score falls with their number: the step is that number / 64, JEM's 1 at 8x8.
Command:
  python experiments/run.py --config=configs/joint.py --config.data.name=npz --config.data.path=FILE
Hardware: 2 CPU cores, or one GPU.
Expected numbers (2026-11-25): trials of 80 to 225 steps on five sets of images did not diverge
(docs/results/own_data.md). The default length is not yet run.

The images decide on train.num_epochs, with the intervals of checkpoints and evaluations, on
sampler.buffer.law and on sampler.sgld.step_size (docs/data.md). A field on the command line wins.
Without data.name it trains on the packaged digits.

Variants:
- smoke: a few steps.
"""

from typing import Any

from ml_collections import ConfigDict

from ebmjax.recipes.joint.fields import configure

BASE: dict[str, Any] = {
    "data.image_size": None,
    "data.num_classes": None,
    "data.max_train": None,
    "data.max_test": None,
    "data.augment_positives": False,
    "model.norm": "group",
    "sampler.num_steps": 5,
    "sampler.num_samples": 32,
    "sampler.sgld.step_size": None,
    "sampler.box": "clamp",
    "sampler.low": -1.2,
    "sampler.high": 1.2,
    "sampler.buffer.size": 2000,
    "sampler.buffer.law": None,
    "loss.energy_l2": 0.01,
    "optimizer.learning_rate": 2e-3,
    "optimizer.schedule": "cosine",
    "optimizer.warmup_steps": 50,
    "train.num_epochs": None,
    "train.batch_size": 32,
    "train.positive_batch_size": 32,
    "train.steps_per_dispatch": 5,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": None,
    "train.on_divergence": "recover",
    "eval.every_epochs": None,
    "eval.num_attacked": 0,
    "eval.landscape_points": 0,
}


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    return configure(variant, BASE, {})
