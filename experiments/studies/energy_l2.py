"""The part of the penalty on squared energies in stability, beside a box.

IGEBM and the sampling-approaches thesis penalise squared energies to keep training stable.
SADA-JEM's Table 5 has the penalty in SAM's place, and loses the samples after 110 epochs. Rows have
both, one or none.

Variants:
- "": JEM on the digits, without normalisation.
- images: energies of the digits (IGEBM), without spectral norm where it says "bare".
"""

from ebmjax.recipes.study import Study
from ebmjax.recipes.study.fid_columns import fid_columns

JEM, IMAGES = "configs/jem_digits.py", "configs/igebm_digits.py"
L2 = "--config.loss.energy_l2"
OPEN = "--config.sampler.box=none"
COMMON = (
    "--config.train.checkpoint_every_epochs=40",
    "--config.eval.every_epochs=40",
)

STUDIES = {
    "": Study(
        rows={
            f"{box}, L2 {weight:g}": [JEM, *flags, f"{L2}={weight}"]
            for box, flags in (("box", []), ("no box", [OPEN]))
            for weight in (0.0, 0.001, 0.01, 0.1)
        },
        columns={
            "accuracy, %": ("classification.accuracy", 100.0, 1),
            "ECE, %": ("classification.ece", 100.0, 1),
            "f of data - of samples, nats": ("energy_gap", 1.0, 2),
            "largest loss": ("over_training.largest_loss", 1.0, 1),
            "skipped steps": ("skipped", 1.0, 0),
            **fid_columns("buffer"),
            "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
        },
        common=(
            *COMMON,
            "--config.eval.num_ood=0",
            "--config.eval.num_attacked=0",
            "--config.eval.landscape_points=0",
        ),
    ),
    "images": Study(
        rows={
            f"{label}, L2 {weight:g}": [f"{IMAGES}{variant}", *flags, f"{L2}={weight}"]
            for label, variant, flags in (
                ("spectral norm and box", "", []),
                ("spectral norm", "", [OPEN]),
                ("box", ":unbounded", []),
                ("bare", ":bare", []),
            )
            for weight in (0.0, 0.01)
        },
        columns={
            "energy of samples - of data, nats": ("energy_gap", 1.0, 2),
            "largest loss": ("over_training.largest_loss", 1.0, 1),
            "skipped steps": ("skipped", 1.0, 0),
            **fid_columns("buffer"),
            "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
        },
        common=COMMON,
    ),
}
