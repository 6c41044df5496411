"""Joint energy model of your own images, without a step to choose.

Claim: a classifier of images of 8 to 64 pixels trains as an energy-based model, whatever the
images. On five sets it is no worse than PCA with a support vector machine.
Paper: JEM's loss, with the informative start of JEM++ and averaged parameters. Chains follow
q(x) exp(f(x) / T). q is what held-out images find likelier: an autoregressive density, whose pixels
chains draw anew, or Gaussians of the classes behind histograms of the pixels, in whose coordinates
they move. Moves are taken back by the rule of Metropolis and Hastings: one step suits every size.
The loss of p(x) fades as the gap between data and samples grows to 2 nats.
Expected numbers (2026-11-27): docs/results/own_data.md.

What is None the images decide (docs/data.md), and a field on the command line wins. Without
data.name it trains on the packaged digits.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

BASE: dict[str, Any] = {
    **project("settings.samplers").JOINT,
    "data.image_size": None,
    "data.num_classes": None,
    "data.dequantise": True,
    "data.max_train": None,
    "data.max_test": None,
    "data.crop_padding": None,
    "data.augment_positives": None,
    "model.factory": "ebmjax.networks:ConvClassifier",
    "sampler.name": "tilted_langevin",
    "sampler.num_samples": 32,
    "sampler.target_acceptance": 0.8,
    "sampler.buffer.size": 160,
    "sampler.buffer.reinit_prob": 0.2,
    "sampler.buffer.start": "informative",
    "loss.energy_l2": 0.01,
    "loss.max_gap": 2.0,
    "loss.generative_weight": 0.5,
    "optimizer.average_decay": 0.99,
    "optimizer.learning_rate": 1e-3,
    "optimizer.schedule": "cosine",
    "optimizer.warmup_steps": 50,
    "train.num_epochs": None,
    "train.batch_size": 32,
    "train.positive_batch_size": 32,
    "train.steps_per_dispatch": 5,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": None,
    "train.max_abs_loss": None,
    "train.max_consecutive_skips": 5,
    "train.on_divergence": "recover",
    "mesh.num_shards": 2,
    "evals.every_epochs": None,
    "evals.robustness.every": "never",
    "evals.landscape.every": "never",
}
# The network is a factory's, which model.dtype does not reach.
VARIANTS = {"bfloat16": {"model.options.dtype": "bfloat16"}}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
