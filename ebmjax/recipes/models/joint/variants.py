"""Variants that every configuration of a joint model has."""

from typing import Any

SMOKE = {
    "mesh.num_shards": 1,
    "data.max_train": 64,
    "data.max_test": 32,
    "data.max_holdout": 32,
    "model.depth": 10,
    "model.widen_factor": 1,
    "sampler.num_steps": 2,
    "sampler.num_samples": 8,
    "sampler.buffer.size": 200,
    "sampler.buffer.replacement": "in_place",
    "sampler.buffer.num_kept": None,
    "train.num_epochs": 2,
    "train.batch_size": 16,
    "train.positive_batch_size": 16,
    "train.steps_per_dispatch": 2,
    "train.log_every": 1,
    "train.checkpoint_every_epochs": 1,
    "eval.every_epochs": 1,
    "eval.num_samples": 20,
    "eval.ood_tfds": (),
    "eval.num_attacked": 16,
    "eval.attack_linf": (0, 4, 16, 32),
    "eval.attack_l2": (0, 64, 128, 256),
    "eval.attack_steps": 2,
    "eval.num_generated": 20,
    "eval.landscape_points": 3,
}


COMMON: dict[str, dict[str, Any]] = {
    "smoke": SMOKE,
    "bfloat16": {"model.dtype": "bfloat16", "sampler.dtype": "bfloat16"},
}
