"""Energy of images (IGEBM) on CIFAR-10, with the published sizes.

Claim: FID after 100 epochs is 61 with Langevin dynamics, 375 with MALA, 413 with tempered MALA and
107 with preconditioning at lambda 1 (sampling-approaches thesis, Table 4.1).
Paper: Du & Mordatch 2019 and its code; thesis 4.2.1; Du et al. 2021 ("icd"). Pixels are in [-1, 1]
here. Their step 10 and noise 0.005 on [0, 1] become 40 and 0.01 (temperature 1.25e-6), their
gradients clipped at 0.01 become 0.005. "thesis" and samplers: step 100 and noise 1e-4 on [0, 1].
Expected numbers: not yet run, except "cpu" (2026-11-22): docs/results/igebm_cifar10.md.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure

samplers = project("settings.samplers")


def langevin(step_size: float, noise_scale: float) -> dict[str, Any]:
    """Every sampler at a step and noise given for pixels in [0, 1], here in [-1, 1]."""
    step, noise = 4 * step_size, 2 * noise_scale
    return {
        **samplers.set_fields(("sgld", "psgld"), step_size=step, noise_scale=noise),
        **samplers.set_fields(
            samplers.REJECTING, step_size=step, temperature=noise**2 / (2 * step)
        ),
    }


def set_printed_mala(step_size: float, noise_scale: float) -> dict[str, Any]:
    """MALA as the thesis prints it, at a step and noise as of ``langevin``."""
    return {
        "sampler.name": "literal/mala.py:literal_mala",
        "sampler.options.step_size": 4 * step_size,
        "sampler.options.noise_scale": 2 * noise_scale,
    }


BASE: dict[str, Any] = {
    **samplers.IMAGES,
    "mesh.num_shards": 8,
    "data.name": "cifar10",
    "data.image_size": 32,
    "data.num_classes": 10,
    "data.max_train": 50_000,
    "data.max_test": 10_000,
    "data.noise_scale": 0.0,
    "data.dequantise": True,
    "model.features": (128, 256, 512),
    "model.depth": 3,
    **langevin(10.0, 0.005),
    "sampler.num_steps": 60,
    "sampler.num_samples": 128,
    "sampler.low": -1.0,
    "sampler.high": 1.0,
    "sampler.max_score": 0.005,
    "sampler.buffer.size": 10_000,
    "loss.energy_l2": 1.0,
    "loss.entropy_weight": 0.3 / 3072,
    "optimizer.learning_rate": 3e-4,
    "optimizer.max_norm": 0.5,
    "train.num_epochs": 100,
    "train.batch_size": 128,
    "train.steps_per_dispatch": 10,
    "train.log_every": 50,
    "train.checkpoint_every_epochs": 5,
    "evals.every_epochs": 5,
    "evals.generation.num_images": 10_000,
}
THESIS: dict[str, Any] = {
    **langevin(100.0, 1e-4),
    "sampler.max_score": None,
    "sampler.augmentation.name": "image",
    "optimizer.learning_rate": 1e-4,
}
SMALL: dict[str, Any] = {
    "mesh.num_shards": 2,
    "data.image_size": 16,
    "data.max_train": 5000,
    "data.max_test": 1000,
    "model.features": (16, 32),
    "model.depth": 1,
    "sampler.num_steps": 20,
    "sampler.num_samples": 32,
    "sampler.buffer.size": 1000,
    "optimizer.learning_rate": 1e-3,
    "train.num_epochs": 12,
    "train.batch_size": 32,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": 6,
    "evals.every_epochs": 3,
    "evals.generation.num_images": 1000,
}
VARIANTS = {
    "thesis": THESIS,
    "psgld": THESIS | {"sampler.name": "psgld"},
    "mala": THESIS | {"sampler.name": "mala"},
    "mala_literal": THESIS | set_printed_mala(100.0, 1e-4),
    "tempered_mala": THESIS
    | {"sampler.name": "tempered_mala", "sampler.tempered_mala.acceptance_decay": 0.0},
    "icd": {
        "mesh.num_shards": 4,  # divides the 100 references
        "model.num_scales": 3,
        "model.activation": "swish",
        "model.spectral_norm": None,
        **langevin(100.0, 0.001),
        "sampler.num_steps": 40,
        "sampler.max_score": None,
        "sampler.buffer.reinit_prob": 0.001,
        "sampler.augmentation.name": "image",
        "loss.name": "improved",
        "optimizer.learning_rate": 2e-4,
        "optimizer.b2": 0.9,
    },
    "cpu": SMALL,
    "cpu_literal": SMALL | set_printed_mala(10.0, 0.005),
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
