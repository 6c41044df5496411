"""Energy of images (IGEBM) on scikit-learn's packaged 8x8 digits.

Claim: SGLD trains an image energy, preconditioned SGLD trains a worse one, and MALA none, because
its acceptance falls to 0, tempered or not (sampling-approaches thesis, Table 4.1).
Paper: Du & Mordatch 2019 (IGEBM), Du et al. 2021 (improved contrastive divergence, multi-scale) and
the thesis, 4.2.1. Here: two stages of 16 and 32 channels, K = 10, a buffer of 1,000 and a box of
[-1.2, 1.2]. Step 1 and noise 0.01 have temperature 5e-5.
Expected numbers (2026-11-22, seeds 0-4): docs/results/igebm_digits.md. 2 CPU cores take a minute.

Variants:
- mala: at the temperature that step and noise imply; mala_literal: by the ratio of the thesis.
- tempered_mala: judges a running acceptance; tempered_mala_every_move: every move, as the listing.
- mixed: a third each of sgld, mala and hmc.
- unbounded: no spectral norm; bare: also no box and no penalty on energies.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure

BASE: dict[str, Any] = {**project("settings.samplers").IMAGES, "mesh.num_shards": 2}
# noise^2 / (2 step) for step 1 and noise 0.01; the robust objective's o is 1 / TEMPERATURE.
TEMPERATURE = 5e-5


def robust(exponent: float) -> dict[str, Any]:
    """The robust objective whose weights are exp(-exponent E)."""
    return {
        "loss.name": "beta",
        "loss.beta": exponent * TEMPERATURE,
        "loss.output_scale": 1 / TEMPERATURE,
    }


# Nothing that keeps energies or chains from running away.
BARE = {"model.spectral_norm": None, "sampler.box": "none", "loss.energy_l2": 0.0}
ADAPTED = {"sampler.target_acceptance": 0.57}
MIXED = {
    "sampler.names": ("sgld", "mala", "hmc"),
    "sampler.num_samples": 66,
    **ADAPTED,
}
VARIANTS = {
    "psgld": {"sampler.name": "psgld"},
    "psgld_exact": {
        "sampler.name": "psgld",
        "sampler.psgld.noise_scale": None,
        "sampler.psgld.temperature": TEMPERATURE,
    },
    "mala": {"sampler.name": "mala"},
    "mala_literal": {"sampler.name": "literal/mala.py:literal_mala"},
    "mala_adapted": {"sampler.name": "mala", **ADAPTED},
    "mala_annealed": {"sampler.name": "mala", "sampler.final_step_fraction": 0.01},
    "tempered_mala": {"sampler.name": "tempered_mala"},
    "tempered_mala_every_move": {
        "sampler.name": "tempered_mala",
        "sampler.tempered_mala.acceptance_decay": 0.0,
    },
    "hmc": {"sampler.name": "hmc", **ADAPTED},
    "mixed": MIXED,
    "mixed_beta": MIXED | robust(1.0),
    "unbounded": {"model.spectral_norm": None},
    "bare": BARE,
    "bare_psgld": BARE | {"sampler.name": "psgld"},
    "multiscale": {"model.num_scales": 2},
    "conditional": {"model.is_conditional": True},
    "improved": {"loss.name": "improved"},
    "equilibrium": BARE
    | {
        "loss.name": "equilibrium_matching",
        "model.activation": "swish",
        "sampler.name": "gradient_descent",
        "sampler.gradient_descent.step_size": 0.003,
        "sampler.num_steps": 250,
        "sampler.buffer.start": "gaussian",
        "train.num_epochs": 120,
    },
    "augmented": {
        "sampler.augmentation.name": "image",
        "sampler.augmentation.min_area": 0.5,
        "sampler.augmentation.is_flipped": False,
        "sampler.augmentation.jitter_prob": 0.0,
    },
    "short_run": {"sampler.buffer.size": None, "sampler.num_steps": 20},
    "beta": robust(1.0),
    "beta_schedule": robust(1.0) | {"loss.beta_start": 0.0},
    "beta_negative": robust(-0.5),
}
get_config = partial(configure, base=BASE, variants=VARIANTS)
