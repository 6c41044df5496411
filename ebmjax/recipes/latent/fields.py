"""Every field of a latent EBM's configuration, with the digits' values."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict, config_dict

from ebmjax.recipes.core import variants as variants_of
from ebmjax.recipes.samplers import SHARED, SINGLE, sections, shared


def defaults() -> ConfigDict:
    """A new configuration of the family "latent": thermodynamic integration on the digits."""
    config: Any = {
        "family": "latent",
        "seed": 0,
        "data": {
            "name": "digits",
            "data_dir": "",
            "image_size": 8,
            "num_classes": config_dict.placeholder(int),
            "max_train": 1440,
            "max_test": 352,
            # So many training images are held out and judged by, in place of the test images.
            "num_validation": 0,
        },
        "model": {
            "latent_dim": 16,
            "prior_hidden": (100, 100),
            "prior_activation": "leaky_relu",
            "generator_features": (64,),
            "generator_init": "lecun_normal",
            "base_scale": 1.0,
            "likelihood_scale": 0.3,
        },
        "sampler": {
            "prior": {**shared("sgld", 0.16), "num_steps": 60},
            "posterior": {**shared("sgld", 0.04), "num_steps": 20},
            # What else a sampler has: prior and posterior share it.
            **sections(SINGLE, without=SHARED),
            # Annealed along the powers instead of started afresh at each.
            "warm_start": False,
            # Going on, at every visit, where the chains of an example stood.
            "persistent": False,
        },
        "loss": {
            "estimator": "tempered",
            "schedule": "power",
            "num_intervals": 10,
            "exponent": 6.0,
            # Of the pilot run that places the powers of the schedule "adaptive": it trains with the
            # power law above and then looks at a finer one.
            "pilot_epochs": 5,
            "pilot_intervals": 20,
            "pilot_exponent": 6.0,
            "chains_per_observation": 1,
            # Of "covariance" alone, by Stein's identity.
            "control_variates": False,
            "energy_l2": 0.0,
            # Weight and covariances of the divergences in the objective of "through_chain" alone.
            # The log evidence that is reported has them in full, with full covariances.
            "kl_weight": 1.0,
            "kl_covariance": "full",
            # "literal" has a plus between the divergences, as the thesis prints.
            "kl_sum": "corrected",
        },
        "optimizer": {
            "b1": 0.5,
            "b2": 0.999,
            "decay_per_epoch": 0.99,
            "prior": {"learning_rate": 2e-4, "final_learning_rate": 1e-4},
            "generator": {"learning_rate": 1e-3, "final_learning_rate": 5e-4},
        },
        "train": {
            # The folder of another run, whose parameters and chains this one begins with.
            "start_from": "",
            # The number of evaluations whose best state is kept beside the newest, if any.
            "keep_best": "",
            "num_epochs": 100,
            "num_repeats": 1,
            "batch_size": 72,
            "steps_per_dispatch": 20,
            "log_every": 5,
            "checkpoint_every_epochs": 10,
            "max_consecutive_skips": 20,
        },
        "mesh": {"num_shards": 8},
        "eval": {
            "every_epochs": 20.0,
            # Before the first step, too.
            "at_start": True,
            # Images a call of what judges them.
            "batch_size": 128,
            "num_samples": 100,
            "num_test": 352,
            "evidence_images": 32,
            # Chains of an image, 3 for each latent dimension at least: to them the divergences of
            # the reported log evidence are fitted. Without divergences only the trapezium rule is
            # reported.
            "evidence_chains": 64,
            "evidence_divergences": True,
            "num_gradients": 8,
            # Of --mode=eval: "newest" or "best", on the images of training's evaluations or, where
            # those were held out of the training images, on the test split.
            "checkpoint": "newest",
            "use_test_split": False,
            # A size of 0, and no methods, leave their part out.
            "num_generated": 1440,
            "smallest_generated": 240,
            "inception_weights": "",
            "inception_sha256": "",
            "evidence_methods": ("thermodynamic", "stepping_stone", "ais"),
            "evidence_intervals": 40,
            "evidence_exponent": 6.0,
            "evidence_steps": 10,
            "evidence_step_size": 0.02,
        },
    }
    config = ConfigDict(config)
    config.data.num_classes = 10  # None where the data have no labels
    return config


def configure(
    variant: str, base: Mapping[str, Any], variants: Mapping[str, Mapping[str, Any]]
) -> ConfigDict:
    """``defaults()`` with ``base`` and then the changes of ``variant``, by dotted field names.

    "" is the base itself, "smoke" a few steps of it on few images, and "vanilla" the training
    without powers.

    Raises:
      ValueError: for a variant that does not exist.
    """
    common = {"smoke": SMOKE, "vanilla": VANILLA}
    return variants_of.configure(defaults(), variant, base, {**common, **variants})


VANILLA = {"loss.estimator": "vanilla"}

SMOKE: dict[str, Any] = {
    "data.max_train": 144,
    "data.max_test": 24,
    "sampler.prior.num_steps": 5,
    "sampler.posterior.num_steps": 5,
    "loss.num_intervals": 3,
    "loss.pilot_epochs": 1,
    "train.num_epochs": 5,
    "train.steps_per_dispatch": 2,
    "train.log_every": 1,
    "train.checkpoint_every_epochs": 1,
    "eval.every_epochs": 2,
    "eval.num_samples": 20,
    "eval.num_test": 24,
    "eval.num_gradients": 2,
    "eval.evidence_images": 2,
    "eval.evidence_chains": 48,
    "eval.num_generated": 40,
    "eval.smallest_generated": 20,
    "eval.evidence_intervals": 3,
    "eval.evidence_steps": 2,
}

# Of the thermodynamic-integration thesis for CelebA and CIFAR-10 alike (Tables 3-5). A batch of 75
# cannot be split, hence one shard.
THESIS: dict[str, Any] = {
    "data.max_train": 12_000,
    "data.max_test": 4_500,
    "data.num_classes": None,
    "sampler.posterior.step_size": 0.01,
    "optimizer.decay_per_epoch": 0.975,
    "optimizer.prior.learning_rate": 2e-5,
    "optimizer.prior.final_learning_rate": 1e-5,
    "optimizer.generator.learning_rate": 1e-4,
    "optimizer.generator.final_learning_rate": 5e-5,
    "train.num_epochs": 50,
    "train.batch_size": 75,
    "train.steps_per_dispatch": 10,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": 1,
    "mesh.num_shards": 1,
    "eval.every_epochs": 5,
    "eval.num_test": 300,
    "eval.evidence_images": 4,
    "eval.num_generated": 4_500,
    "eval.smallest_generated": 1_000,
}

# A model 64 times smaller, to try the path of a large configuration on a CPU.
SMALL_SMOKE: dict[str, Any] = {
    **SMOKE,
    "data.max_train": 48,
    "data.max_test": 16,
    "model.latent_dim": 8,
    "loss.num_intervals": 2,
    "sampler.prior.num_steps": 4,
    "sampler.posterior.num_steps": 4,
    "train.num_epochs": 1,
    "train.batch_size": 12,
    "mesh.num_shards": 1,
    "eval.num_samples": 10,
    "eval.num_test": 16,
    "eval.evidence_chains": 24,
}


def widths(width: int, *multiples: int) -> dict[str, tuple[int, ...]]:
    """Features of a generator, as multiples of ``width``."""
    return {"model.generator_features": tuple(width * multiple for multiple in multiples)}
