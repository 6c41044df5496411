"""Joint energy model of your own images, without a step to choose.

Claim: a classifier of images of 8 to 32 pixels trains as an energy-based model, whatever the
images, and ends with a sane generator.
Paper: SADA-JEM with K = 5: the informative start and no augmentation of p(x). As in jem_digits.py,
noise 0.03 on images, chains with noise 0.01 in [-1.2, 1.2], and a penalty of 0.01 on squared
energies. The network is small: strided convolutions and two dense layers. The papers' wide ResNet
takes means over pixels and learns MNIST slowly, and the generator is lost before (own_data.md). A
generator counts as lost, and the run as diverged, where the loss is 5 nats beyond that of guessing
for five steps. Then the run goes back and takes a remedy: smaller steps of the sampler or of the
optimiser helped, the penalty on energies did not.
Command:
  python experiments/run.py --config=configs/joint.py --config.data.name=npz --config.data.path=FILE
Hardware: 2 CPU cores, or one GPU.
Expected numbers (2026-11-26, seed 0): 4,000 images of MNIST, accuracy 95.1 %, ECE 10.1 %, FID of
fresh chains 22, of their starts 93, of test images 6. More: docs/results/own_data.md.

The images decide on train.num_epochs, with the intervals of checkpoints and evaluations, on
train.max_abs_loss, sampler.buffer.start and sampler.sgld.step_size (docs/data.md). A field on the
command line wins. Without data.name it trains on the packaged digits.

Variants:
- smoke: a few steps.
- bfloat16: half precision.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.models.joint.fields import configure

BASE: dict[str, Any] = {
    "data.image_size": None,
    "data.num_classes": None,
    "data.max_train": None,
    "data.max_test": None,
    "data.augment_positives": False,
    "model.factory": "ebmjax.networks:ConvClassifier",
    "sampler.num_steps": 5,
    "sampler.num_samples": 32,
    "sampler.sgld.step_size": None,
    "sampler.box": "clamp",
    "sampler.low": -1.2,
    "sampler.high": 1.2,
    "sampler.buffer.size": 2000,
    "sampler.buffer.start": None,
    "loss.energy_l2": 0.01,
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
    "train.remedies": ("step_size", "learning_rate", "chain_steps", "step_size", "learning_rate"),
    "eval.every_epochs": None,
    "eval.robustness.every": "never",
    "eval.landscape.every": "never",
}
# The network is a factory's, which model.dtype does not reach.
VARIANTS = {"bfloat16": {"model.options": '{"dtype": "bfloat16"}'}}
get_config = partial(configure, base=BASE, variants=VARIANTS)
