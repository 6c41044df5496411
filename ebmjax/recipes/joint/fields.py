"""Every field of a joint energy model's configuration, with JEM's own choices as its values."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from ebmjax.recipes.core import variants as variants_of
from ebmjax.recipes.samplers import SAMPLERS, sections

UNADJUSTED = ("sgld", "proximal_sgld", "psgld", "literal_psgld", "literal_mala")
# JEM's step and noise, and for samplers that reject the temperature 5e-4.
CHANGES = {
    "gradient_descent.step_size": 1.0,
    **{f"{name}.step_size": 1.0 for name in UNADJUSTED},
    **{f"{name}.noise_scale": 0.01 for name in UNADJUSTED},
    **{f"{name}.temperature": None for name in UNADJUSTED},
    "proximal_sgld.noise_scale": 0.0,
    **{f"{name}.decay": 0.9 for name in ("psgld", "literal_psgld")},
    **{f"{name}.damping": 1.0 for name in ("psgld", "literal_psgld")},
    **{f"{name}.step_size": 0.1 for name in ("mala", "tempered_mala", "hmc")},
    **{f"{name}.temperature": 5e-4 for name in ("mala", "tempered_mala", "hmc", "blackjax")},
    "hmc.num_integration_steps": 5,
    "svgd.step_size": 8.0,
    "adaptive_svgd.step_size": 0.02,
    "stochastic_svgd.step_size": 8.0,
    "stochastic_svgd.temperature": 5e-5,
    "pyld.step_size": 0.2,
}


def defaults() -> ConfigDict:
    """A new configuration of the family "joint": JEM on the packaged digits.

    ``sampler.name`` picks one of the sections below ``sampler``; the others wait unused, so that
    ``--config.sampler.name=mala`` alone is a complete change.
    """
    optional = config_dict.placeholder
    config: Any = {
        "family": "joint",
        "seed": 0,
        "data": {
            "name": "digits",
            "data_dir": "",
            "image_size": 8,
            "num_classes": 10,
            "max_train": 1440,
            "max_test": 357,
            # Train on the first N images of each class alone. The informative start is still
            # fitted to all training images, for one image has no covariance.
            "num_per_class": optional(int),
            # So many training images are held out and judged by, in place of the test images.
            "num_validation": 0,
            "crop_padding": 1,
            "flip": False,
            # p(x)'s images: plain, or augmented as the labelled ones but where it has its own.
            "augment_positives": True,
            "positive_crop_padding": optional(int),
            "positive_flip": optional(bool),
            "noise_scale": 0.03,
            "dequantise": False,
        },
        "model": {
            "depth": 10,
            "widen_factor": 1,
            "norm": "none",
            "norm_policy": "default",
            "lowering": "auto",
            "dtype": "float32",
        },
        "sampler": {
            "name": "sgld",
            "num_steps": 10,
            "num_samples": 64,
            "dtype": "float32",
            "box": "none",
            "low": -1.0,
            "high": 1.0,
            "max_score": optional(float),
            "allow_decoupled": False,
            **sections(SAMPLERS, CHANGES),
            "buffer": {
                "size": 10_000,
                "reinit_prob": 0.05,
                "law": "uniform",
                "law_scale": 1.0,
                "replacement": "in_place",
                "num_kept": optional(int),
            },
        },
        "loss": {
            "generative": "contrastive_divergence",
            "classification_weight": 1.0,
            "generative_weight": 1.0,
            "is_conditional": False,
            "energy_l2": 0.0,
            "beta": 0.0,
            "sampling_beta": optional(float),
            "max_positive_weight": optional(float),
            "beta_variant": "default",
            "output_scale": 1.0,
            "svgd_variant": "corrected",
            "smoothing": 1.0,
            "smoothing_ratio": optional(float),
            "smoothing_rate": 0.1,
        },
        "optimizer": {
            "name": "adam",
            "learning_rate": 5e-3,
            "b1": 0.9,
            "b2": 0.999,
            "momentum": 0.9,
            "weight_decay": 0.0,
            "warmup_steps": 0,
            # "steps" down at decay_epochs, or "cosine" to 0 at the end.
            "schedule": "steps",
            "decay_epochs": (24.0, 34.0),
            "decay_factor": 0.3,
            "rho": optional(float),
            "adaptive": False,
        },
        "train": {
            # The folder of another run, whose parameters and chains this one begins with.
            "start_from": "",
            # The number of evaluations whose best state is kept beside the newest, if any.
            "keep_best": "",
            "num_epochs": 40,
            "batch_size": 64,
            "positive_batch_size": 64,
            "steps_per_dispatch": 22,
            "log_every": 11,
            "checkpoint_every_epochs": 10,
            "max_consecutive_skips": 20,
            "max_abs_loss": 1e5,
        },
        # whole_batch: batch statistics, SAM and the loss's weights are those of all shards
        # together, as if there were one; False takes each shard's part for a batch of its own.
        "mesh": {"num_shards": 1, "whole_batch": True},
        "eval": {
            "every_epochs": 10.0,
            "batch_size": 128,
            "num_samples": 100,
            # Chains whose every step is kept and drawn, at each evaluation.
            "num_profiled": 0,
            # Of --mode=eval: "newest" or "best", on the images of training's evaluations or, where
            # those were held out of the training images, on the test split.
            "checkpoint": "newest",
            "use_test_split": False,
            # Of --mode=eval; a size of 0 leaves its part out.
            "num_ood": 1000,
            "ood_tfds": (),
            "num_attacked": 128,
            "attack_linf": (0, 4, 16, 32),
            "attack_l2": (0, 64, 128, 256),
            "attack_steps": 20,
            "attack_step_size": optional(float),
            "attack_restarts": 1,
            "refine_steps": 0,
            "num_eot": 1,
            "num_generated": 256,
            "num_chain_steps": optional(int),
            # Also what SADA-JEM's code reports, of the buffer's images that the model is sure of.
            "selected_by_confidence": False,
            "inception_weights": "",
            "inception_sha256": "",
            "landscape_points": 11,
        },
    }
    return ConfigDict(config)


def configure(
    variant: str, base: Mapping[str, Any], variants: Mapping[str, Mapping[str, Any]]
) -> ConfigDict:
    """``defaults()`` with ``base`` and then the changes of ``variant``, by dotted field names.

    "" is the base itself and "smoke" a few steps of it on few images.

    Raises:
      ValueError: for a variant that does not exist.
    """
    return variants_of.configure(defaults(), variant, base, {**variants, "smoke": SMOKE})


SMOKE = {
    "data.max_train": 64,
    "data.max_test": 32,
    "model.depth": 10,
    "model.widen_factor": 1,
    "sampler.num_steps": 2,
    "sampler.num_samples": 8,
    "sampler.buffer.size": 200,
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
