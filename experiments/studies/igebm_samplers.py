"""Table 4.1 of the sampling-approaches thesis on the packaged digits, and what it did not try.

Rows are variants of configs/igebm_digits.py: samplers of the negatives, then networks, objectives
and starts with SGLD. FID and KID are in features of a classifier of the digits, and compare with
each other alone. training.png shows all rows over training, samples.png the buffers of seed 0.

Variants: "" all; "cifar10" the table's samplers on real CIFAR-10 at 16x16, with TFDS_DATA_DIR
naming the folder of the prepared data.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments.igebm_figures import ACCEPTANCE, RUNAWAY, samples
from experiments.study import Study
from experiments.study_figures import Panel, over_training

CONFIG = "configs/igebm_digits.py"
ROWS = {
    "SGLD": "",
    "pSGLD, image form": "psgld",
    "pSGLD, exact noise": "psgld_exact",
    "MALA": "mala",
    "tempered MALA": "tempered_mala",
    "MALA, adapted": "mala_adapted",
    "HMC, adapted": "hmc",
    "SGLD + MALA + HMC": "mixed",
    "no spectral norm": "unbounded",
    "two scales": "multiscale",
    "conditional": "conditional",
    "improved CD": "improved",
    "augmented starts": "augmented",
    "short-run": "short_run",
    "beta, exponent 1": "beta",
    "beta, from 0 to exponent 1": "beta_schedule",
    "SGLD + MALA + HMC, beta, exponent 1": "mixed_beta",
    "beta, exponent -0.5": "beta_negative",
}
CIFAR = "configs/igebm_cifar10.py:cpu"
CIFAR_ROWS = {
    "SGLD": "sgld",
    "MALA": "mala",
    "MALA, literal": "literal_mala",
    "tempered MALA": "tempered_mala",
    "pSGLD, lambda 1": "psgld",
}
COLUMNS = {
    "FID (classifier features), buffer": ("buffer.fid_classifier_features", 1.0, 1),
    "the same, fresh chains": ("fresh.fid_classifier_features", 1.0, 1),
    "the same, chains as in training": ("short.fid_classifier_features", 1.0, 1),
    "KID, buffer": ("buffer.kid_classifier_features", 1.0, 1),
    "of the test images, FID": ("test_images.fid_classifier_features", 1.0, 1),
    "implied T, 1e-6": ("implied_temperature", 1e6, 3),
    "acceptance, end of training": ("chain_acceptance_prob", 1.0, 3),
    "distance travelled": ("chain_displacement", 1.0, 5),
    "energy of fresh - of data, nats": ("energies.gap", 1.0, 2),
    "R-hat of energies": ("mixing.rhat_energy", 1.0, 2),
    "seconds of training": ("run_seconds", 1.0, 0),
}


def draw(panels: Sequence[Panel], rows: Sequence[str], folder: Path) -> None:
    """The figures of a study's folder."""
    over_training(panels, "training", folder)
    samples(rows, folder)


STUDIES = {
    "": Study(
        rows={label: f"{CONFIG}:{name}" if name else CONFIG for label, name in ROWS.items()},
        columns=COLUMNS,
        common=("--config.eval.every_epochs=2", "--config.train.checkpoint_every_epochs=40"),
        draw=partial(draw, ACCEPTANCE, list(ROWS)),
    ),
    "cifar10": Study(
        rows={
            label: [CIFAR, f"--config.sampler.names=('{name}',)"]
            for label, name in CIFAR_ROWS.items()
        },
        columns=COLUMNS,
        draw=partial(draw, RUNAWAY, list(CIFAR_ROWS)),
    ),
}
