"""Latent EBM with thermodynamic integration on CIFAR-10, as in the thesis.

Claim: the schedule exponent p shapes the variance of the learning gradient and with it the
quality of the samples (KID_inf best near p = 6).
Paper: thermodynamic-integration thesis, Tables 4 and 5 (generator as corrected in docs/latent.md).
Command:
  python experiments/run.py --config=configs/thermo_cifar10.py --config.data.data_dir=FOLDER
where FOLDER holds the prepared cifar10 of tensorflow-datasets; without --config.data.data_dir it is
looked for in ~/tensorflow_datasets and prepared there where the network allows.
Hardware: an accelerator, for the thesis's size.
Expected numbers: not yet run at the thesis's size. Tried (2026-11-21): 4 steps of the full networks
on real CIFAR-10 with batch 5 and N_t = 2, in 43 s on 2 cores, all finite.

Variants: "" the thesis's model with thermodynamic integration; "vanilla" without; "smoke" a model
64 times smaller for a few steps, to try the path on a CPU.
A batch of 75 cannot be split over 2, 4 or 8 devices. There, use for example
--config.train.batch_size=72 --config.mesh.num_shards=8.
"""

from typing import Any

from ml_collections import ConfigDict


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    if variant not in ("", "vanilla", "smoke"):
        raise ValueError(f"unknown variant {variant!r}; there are vanilla and smoke.")
    width = 64
    config: Any = {
        "family": "thermo",
        "seed": 0,
        "data": {
            "name": "cifar10",
            "data_dir": "",
            "image_size": 32,
            "max_train": 12_000,
            "max_test": 4_500,
        },
        "model": {
            "latent_dim": 100,
            "prior_hidden": (100, 100),
            "generator_features": (16 * width, 8 * width, 4 * width),
            "base_scale": 1.0,
            "likelihood_scale": 0.3,
        },
        "sampler": {
            "prior": {"name": "sgld", "step_size": 0.16, "num_steps": 60},
            "posterior": {"name": "sgld", "step_size": 0.01, "num_steps": 40},
            "warm_start": False,
        },
        "loss": {
            "estimator": "vanilla" if variant == "vanilla" else "tempered",
            "num_intervals": 10,
            "exponent": 6.0,
            "kl_weight": 1.0,
            "kl_covariance": "shrunk",
        },
        "optimizer": {
            "b1": 0.5,
            "b2": 0.999,
            "decay_per_epoch": 0.975,
            "prior": {"learning_rate": 2e-5, "final_learning_rate": 1e-5},
            "generator": {"learning_rate": 1e-4, "final_learning_rate": 5e-5},
        },
        "train": {
            "num_epochs": 50,
            "batch_size": 75,
            "steps_per_dispatch": 10,
            "log_every": 10,
            "checkpoint_every_epochs": 1,
            "max_consecutive_skips": 20,
        },
        "mesh": {"num_shards": 1},
        "eval": {
            "every_epochs": 5,
            "num_samples": 100,
            "num_test": 300,
            "evidence_images": 4,
            "evidence_chains": 64,
            "num_gradients": 8,
        },
    }
    config = ConfigDict(config)
    if variant == "smoke":
        width = 8
        config.model.generator_features = (16 * width, 8 * width, 4 * width)
        config.model.latent_dim = 8
        config.data.update(max_train=48, max_test=16)
        config.loss.num_intervals = 2
        config.sampler.prior.num_steps = config.sampler.posterior.num_steps = 4
        config.train.update(num_epochs=1, batch_size=12, steps_per_dispatch=2, log_every=1)
        config.eval.update(num_samples=10, num_test=16, num_gradients=2)
        config.eval.update(evidence_images=2, evidence_chains=12)
    return config
