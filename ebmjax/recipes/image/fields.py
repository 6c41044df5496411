"""Every field of an image energy's configuration, with the digits' values."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from ebmjax.recipes.core import variants as variants_of
from ebmjax.recipes.samplers import SINGLE, sections

# IGEBM's step 10 and noise 0.005 on pixels in [0, 1]: twice the scale has four times the step.
DIGITS_STEP, DIGITS_NOISE = 1.0, 0.01
LANGEVIN = [name for name, entry in SINGLE.items() if "noise_scale" in entry.fields]
CHANGES = {
    **{f"{name}.step_size": DIGITS_STEP for name in ("gradient_descent", *LANGEVIN)},
    **{f"{name}.temperature": None for name in LANGEVIN},
    **{f"{name}.decay": 0.9 for name in ("psgld", "literal_psgld")},
    **{f"{name}.damping": 1.0 for name in ("psgld", "literal_psgld")},
    "hmc.step_size": 0.1,
    "hmc.temperature": 5e-5,
}


def defaults() -> ConfigDict:
    """A new configuration of the family "image": an energy of the packaged digits.

    ``sampler.names`` lists sections below ``sampler``, among which every batch of negatives is
    split evenly. In a section, noise that is None is the one for ``temperature``, and a temperature
    that is None the one that ``noise_scale`` implies.
    """
    optional = config_dict.placeholder
    config: Any = {
        "family": "image",
        "seed": 0,
        "data": {
            "name": "digits",
            "data_dir": "",
            "image_size": 8,
            "num_classes": optional(int),
            "max_train": 1440,
            "max_test": 357,
            # So many training images are held out and judged by, in place of the test images.
            "num_validation": 0,
            "flip": False,
            "noise_scale": 0.03,
            "dequantise": False,
        },
        "model": {
            "features": (16, 32),
            "depth": 1,
            "is_conditional": False,
            "num_scales": 1,
            "spectral_norm": optional(float),
            "activation": "leaky_relu",
            "lowering": "auto",
            "dtype": "float32",
        },
        "sampler": {
            "names": ("sgld",),
            "num_steps": 10,
            "num_samples": 64,
            "box": "clamp",
            "low": -1.2,
            "high": 1.2,
            "max_score": optional(float),
            "allow_decoupled": False,
            "target_acceptance": optional(float),
            "min_step_size": 0.0,
            # Of a training chain's last step, in parts of its first: below 1 it anneals.
            "final_step_fraction": 1.0,
            **sections(SINGLE, CHANGES),
            "buffer": {
                # Without it every chain starts anew.
                "is_used": True,
                "size": 1000,
                "reinit_prob": 0.05,
                "law": "uniform",
                "law_scale": 1.0,
            },
            "augmentation": {
                "name": "none",
                "min_area": 0.08,
                "is_flipped": True,
                "jitter_prob": 0.8,
                "grey_prob": 0.2,
                "max_blur": 0.0,
            },
        },
        "loss": {
            "name": "contrastive_divergence",
            "energy_l2": 0.01,
            # Of "improved".
            "kl_weight": 1.0,
            "entropy_weight": 0.3 / 64,
            "live_steps": 1,
            "num_references": 100,
            # Of "beta": linear over the run from beta_start, where that is set.
            "beta_end": 0.0,
            "beta_start": optional(float),
            "allow_negative": False,
            "beta_variant": "default",
            "output_scale": 1.0,
            "max_positive_weight": optional(float),
        },
        "optimizer": {
            "learning_rate": 1e-3,
            "b1": 0.0,
            "b2": 0.999,
            "max_norm": optional(float),
            "warmup_steps": 0,
            "average_decay": 0.99,
        },
        "train": {
            # The folder of another run, whose parameters and chains this one begins with.
            "start_from": "",
            # The number of evaluations whose best state is kept beside the newest, if any.
            "keep_best": "",
            "num_epochs": 40,
            "batch_size": 64,
            "steps_per_dispatch": 22,
            "log_every": 11,
            "checkpoint_every_epochs": 20,
            "max_consecutive_skips": 20,
            "max_abs_loss": 1e5,
        },
        # whole_batch: batch statistics, SAM and the loss's weights are those of all shards
        # together, as if there were one; False takes each shard's part for a batch of its own.
        "mesh": {"num_shards": 1, "whole_batch": True},
        "eval": {
            "every_epochs": 4.0,
            "batch_size": 128,
            "num_samples": 100,
            # Chains whose every step is kept and drawn, at each evaluation.
            "num_profiled": 0,
            # Of --mode=eval: "newest" or "best", on the images of training's evaluations or, where
            # those were held out of the training images, on the test split.
            "checkpoint": "newest",
            "use_test_split": False,
            # Of --mode=eval.
            "num_generated": 256,
            "num_chain_steps": optional(int),
            # In steps of training's chains, at the same temperature.
            "step_factor": 1.0,
            "num_diagnosed": 16,
            "inception_weights": "",
            "inception_sha256": "",
        },
    }
    config = ConfigDict(config)
    # Both may be None: for data without labels, and for kernels of any norm.
    config.data.num_classes, config.model.spectral_norm = 10, 1.0
    return config


def noise_of(*names: str, noise_scale: float = DIGITS_NOISE) -> dict[str, Any]:
    """The noise of some samplers, whose temperatures it implies."""
    return {f"sampler.{name}.noise_scale": noise_scale for name in names}


def configure(
    variant: str, base: Mapping[str, Any], variants: Mapping[str, Mapping[str, Any]]
) -> ConfigDict:
    """``defaults()`` with ``base`` and then the changes of ``variant``, by dotted field names.

    "" is the base itself and "smoke" a few steps of it on few images.

    Raises:
      ValueError: for a variant that does not exist.
    """
    config = defaults()
    config.update_from_flattened_dict(noise_of(*LANGEVIN))
    return variants_of.configure(config, variant, base, {**variants, "smoke": SMOKE})


SMOKE: dict[str, Any] = {
    "data.max_train": 64,
    "data.max_test": 32,
    "model.features": (4, 8),
    "model.depth": 1,
    "sampler.num_steps": 3,
    "sampler.num_samples": 12,
    "sampler.buffer.size": 200,
    "loss.num_references": 8,
    "train.num_epochs": 2,
    "train.batch_size": 16,
    "train.steps_per_dispatch": 2,
    "train.log_every": 1,
    "train.checkpoint_every_epochs": 1,
    "eval.every_epochs": 1,
    "eval.num_samples": 20,
    "eval.num_generated": 20,
    "eval.num_chain_steps": 8,
    "eval.num_diagnosed": 4,
}
