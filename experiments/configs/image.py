"""Energy of your own images, with labels or without, and without a step to choose.

Claim: an energy of images of 8 to 32 pixels trains without divergence, whatever the images.
Paper: contrastive divergence of persistent chains (Tieleman 2008), with the chains of joint.py:
q(x) exp(-E(x) / T). q is what held-out images find likelier: an autoregressive density, or
Gaussians of the classes behind histograms of the pixels. The loss fades as the gap between data and
samples grows to 2 nats.
Expected numbers (2026-11-27, seed 0): docs/results/own_data.md.

What is None the images decide (docs/data.md), and a field on the command line wins. Without
data.name it trains on the packaged digits.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure

BASE: dict[str, Any] = {
    **project("settings.samplers").IMAGES,
    "data.image_size": None,
    "data.num_classes": None,
    "data.dequantise": True,
    "data.noise_scale": 0.0,
    "data.max_train": None,
    "data.max_test": None,
    "model.factory": "ebmjax.networks:ConvEnergy",
    "sampler.name": "tilted_langevin",
    "sampler.box": "none",
    "sampler.num_samples": 32,
    "sampler.target_acceptance": 0.8,
    "sampler.buffer.reinit_prob": 0.1,
    "sampler.buffer.start": "informative",
    "loss.max_gap": 2.0,
    "optimizer.b1": 0.9,
    "optimizer.final_fraction": 0.1,
    "train.num_epochs": None,
    "train.batch_size": 32,
    "train.steps_per_dispatch": 5,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": None,
    "train.on_divergence": "recover",
    "mesh.num_shards": 2,
    "evals.every_epochs": None,
}
# The network is a factory's, which model.dtype does not reach.
VARIANTS = {"bfloat16": {"model.options.dtype": "bfloat16"}}
get_config = partial(configure, base=BASE, variants=VARIANTS)
