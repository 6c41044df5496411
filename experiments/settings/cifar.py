"""Parts that the joint energy models on CIFAR share: network, data and evaluation.

WRN-28-10 on 50,000 images of 32x32. Attacks are SADA-JEM's: PGD of 50 steps of 2/255 on 1,000 test
images, the same radii in both norms.
"""

from collections.abc import Mapping
from typing import Any

RADII = (0, 1, 2, 4, 8, 12, 16, 22, 30)

CIFAR = {
    "mesh.num_shards": 8,
    "data.image_size": 32,
    "data.num_classes": 10,
    "data.max_train": 50_000,
    "data.max_test": 10_000,
    "data.crop_padding": 4,
    "data.flip": True,
    "model.depth": 28,
    "model.widen_factor": 10,
    "train.num_epochs": 200,
    "train.steps_per_dispatch": 10,
    "train.log_every": 50,
    "train.checkpoint_every_epochs": 5,
    "eval.every_epochs": 5,
    "eval.batch_size": 500,
    "eval.num_ood": 10_000,
    "eval.ood_tfds": ("svhn_cropped", "cifar100", "celeb_a"),
    "eval.num_attacked": 1000,
    "eval.attack_linf": RADII,
    "eval.attack_l2": RADII,
    "eval.attack_steps": 50,
    "eval.attack_step_size": 2.0,
    "eval.num_generated": 10_000,
}

CPU = {
    "data.image_size": 16,
    "data.max_train": 5000,
    "data.max_test": 1000,
    "data.crop_padding": 2,
    "model.depth": 10,
    "model.widen_factor": 1,
    "model.norm": "group",
    "model.dtype": "float32",
    "sampler.dtype": "float32",
    "sampler.box": "clamp",
    "sampler.num_steps": 10,
    "sampler.num_samples": 32,
    "sampler.buffer.size": 2000,
    "sampler.buffer.law": "informative",
    "loss.energy_l2": 0.01,
    "optimizer.name": "adam",
    "optimizer.learning_rate": 3e-3,
    "optimizer.weight_decay": 0.0,
    "optimizer.warmup_steps": 0,
    "optimizer.decay_epochs": (8, 11),
    "optimizer.decay_factor": 0.3,
    "train.batch_size": 50,
    "mesh.num_shards": 1,
    "train.positive_batch_size": 50,
    "train.num_epochs": 12,
    "train.log_every": 10,
    "eval.every_epochs": 4,
    "eval.batch_size": 250,
    "eval.num_ood": 1000,
    "eval.ood_tfds": (),
    "eval.num_attacked": 128,
    "eval.attack_linf": (0, 4, 16, 32),
    "eval.attack_l2": (0, 64, 128, 256),
    "eval.attack_steps": 20,
    "eval.attack_step_size": None,
    "eval.num_generated": 1000,
}
"""Settings for minutes on two cores: WRN-10-1 on 5,000 images shrunk to 16x16, as the digits."""


def on_cifar100(base: Mapping[str, Any], variant: str) -> dict[str, Any]:
    """Returns CIFAR-10's configuration ``base`` for CIFAR-100, with ``variant``."""
    # A smoke run has too few images for every class, which the informative law needs.
    law: dict[str, Any] = {"sampler.buffer.law": "uniform"} if variant == "smoke" else {}
    if base.get("sampler.buffer.law") == "informative":
        # It needs as many slots of each class in each shard: 10,000 are no multiple of 800.
        law["sampler.buffer.size"] = 10_400
    return {
        **base,
        "data.name": "cifar100",
        "data.num_classes": 100,
        "eval.ood_tfds": ("svhn_cropped", "cifar10", "celeb_a"),
        **law,
    }
