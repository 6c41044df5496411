"""Settings that configurations and studies of joint energy models share.

On CIFAR: WRN-28-10 on 50,000 images of 32x32. Attacks are SADA-JEM's: PGD of 50 steps of 2/255 on
1,000 test images, the same radii in both norms.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from ebmjax.recipes.models.energy.fields import SMOKE, configure_joint

from .samplers import JOINT as SAMPLERS

Changes = dict[str, Any]

ATTACKED = (0, 1, 2, 4, 8, 12, 16, 22, 30)

CIFAR: Changes = {
    **SAMPLERS,
    "data.name": "cifar10",
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
    "evals.every_epochs": 5,
    "evals.batch_size": 500,
    "evals.ood.num_images": 10_000,
    "evals.ood.tfds": ("svhn_cropped", "cifar100", "celeb_a"),
    "evals.robustness.num_images": 1000,
    "evals.robustness.linf": ATTACKED,
    "evals.robustness.l2": ATTACKED,
    "evals.robustness.num_steps": 50,
    "evals.robustness.step_size": 2.0,
    "evals.generation.num_images": 10_000,
}

SGD = {
    "optimizer.name": "sgd",
    "optimizer.learning_rate": 0.1,
    "optimizer.weight_decay": 5e-4,
    "optimizer.warmup_steps": 1000,
    "optimizer.decay_epochs": (60, 120, 180),
    "optimizer.decay_factor": 0.2,
}
"""SADA-JEM's optimiser."""

CPU = {
    "data.image_size": 16,
    "data.max_train": 5000,
    "data.max_test": 1000,
    "data.crop_padding": 2,
    "model.depth": 10,
    "model.widen_factor": 1,
    "model.norm": "group",
    "sampler.box": "clamp",
    "sampler.num_steps": 10,
    "sampler.num_samples": 32,
    "sampler.buffer.size": 2000,
    "sampler.buffer.start": "informative",
    "loss.energy_l2": 0.01,
    "optimizer.name": "adam",
    "optimizer.learning_rate": 3e-3,
    "optimizer.weight_decay": 0.0,
    "optimizer.warmup_steps": 0,
    "optimizer.decay_epochs": (8, 11),
    "optimizer.decay_factor": 0.3,
    "train.batch_size": 50,
    "mesh.num_shards": 2,
    "train.positive_batch_size": 50,
    "train.num_epochs": 12,
    "train.log_every": 10,
    "evals.every_epochs": 4,
    "evals.batch_size": 250,
    "evals.ood.num_images": 1000,
    "evals.ood.tfds": (),
    "evals.robustness.num_images": 128,
    "evals.robustness.linf": (0, 4, 16, 32),
    "evals.robustness.l2": (0, 64, 128, 256),
    "evals.robustness.num_steps": 20,
    "evals.robustness.step_size": None,
    "evals.generation.num_images": 1000,
}
"""Settings for minutes on two cores: WRN-10-1 on 5,000 images shrunk to 16x16, as the digits."""


def on_cifar100(
    base: Mapping[str, Any], variants: Mapping[str, Changes] = {}
) -> Callable[..., ConfigDict]:
    """Returns ``get_config`` of CIFAR-10's configuration ``base`` for CIFAR-100."""
    changes: Changes = {
        "data.name": "cifar100",
        "data.num_classes": 100,
        "evals.ood.tfds": ("svhn_cropped", "cifar10", "celeb_a"),
    }
    if base.get("sampler.buffer.start") == "informative":
        # It needs as many slots of each class in each shard: 10,000 are no multiple of 800.
        changes["sampler.buffer.size"] = 10_400
    # A smoke run has too few images for every class, which the informative law needs.
    smoke = SMOKE["joint"] | {"sampler.buffer.start": "uniform"}
    return partial(configure_joint, base={**base, **changes}, variants={**variants, "smoke": smoke})


# The radii of SAM and ASAM in SADA-JEM's Table 6: 005 is 0.05. The published code's default is
# asam_2, the paper's sam_02.
SAM = {"005": 0.05, "01": 0.1, "02": 0.2, "04": 0.4, "08": 0.8}
ASAM = {"05": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}
RADII: dict[str, Changes] = {
    **{f"sam_{name}": {"optimizer.rho": rho} for name, rho in SAM.items()},
    **{
        f"asam_{name}": {"optimizer.rho": rho, "optimizer.adaptive": True}
        for name, rho in ASAM.items()
    },
}

# The robust-objective paper's scenarios (Table 2, appendix M).
EXPONENTS = {"tenth": 0.1, "half": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "10": 10.0}
"""Exponents of the paper's weights exp(exponent f), by the names of variants."""

TABLE_1 = ("half", "1", "2", "4", "10")
"""Exponents of the default scenario: beta 2.5e-5 to 5e-4 at the output scale 2e4."""

TABLE_2 = {
    "steps_5": ("half", "2"),
    "negatives_8": ("half", "2"),
    "scale_2": ("half", "2", "10"),
    "scale_half": ("half", "2"),
    "step_4": ("half", "2", "4"),
    "step_quarter": ("tenth", "1", "2"),
}
"""Exponents of the other scenarios: 2; that of the best inception score and FID; and, if not 2,
that of the best accuracy."""


def robust(exponent: float, output_scale: float = 2e4) -> Changes:
    """Returns fields of the robust objective with weights exp(exponent f)."""
    return {
        "loss.name": "beta",
        "loss.beta": exponent / output_scale,
        "loss.output_scale": output_scale,
    }


def langevin(step_size: float, noise_scale: float) -> Changes:
    """Returns fields of JEM's SGLD: no box, and no penalty on the energies."""
    return {
        "loss.energy_l2": 0.0,
        "sampler.box": "none",
        "sampler.sgld.step_size": step_size,
        "sampler.sgld.noise_scale": noise_scale,
    }


DEFAULT = langevin(1.0, 0.01)
"""Fields of the first scenario."""


def scenario_variants(learning_rate: float) -> dict[str, Changes]:
    """Returns beta_B, the default scenario at Table 1's exponents; the others at 0 and Table 2's.

    As in the paper, "step_4" also has a quarter of the output scale and of the learning rate.
    """
    scenarios = {
        "steps_5": (DEFAULT | {"sampler.num_steps": 5}, 2e4),
        "negatives_8": (DEFAULT | {"sampler.num_samples": 8}, 2e4),
        "scale_2": (langevin(2.0, 0.01), 4e4),
        "scale_half": (langevin(0.5, 0.01), 1e4),
        "step_4": (langevin(1.0, 0.02) | {"optimizer.learning_rate": learning_rate / 4}, 5e3),
        "step_quarter": (langevin(0.25, 0.005), 2e4),
    }
    made = {f"beta_{exponent}": DEFAULT | robust(EXPONENTS[exponent]) for exponent in TABLE_1}
    for name, (changes, output_scale) in scenarios.items():
        made[name] = changes
        for exponent in TABLE_2[name]:
            made[f"{name}_beta_{exponent}"] = changes | robust(EXPONENTS[exponent], output_scale)
    return made
