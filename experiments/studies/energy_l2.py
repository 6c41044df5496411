"""The part of the penalty on squared energies in stability, beside a box.

IGEBM and the sampling-approaches thesis penalise squared energies to keep training stable.
SADA-JEM's Table 5 has the penalty in SAM's place, and loses the samples after 110 epochs. Rows have
both, one or none.

Variants:
- "": JEM on the digits, without normalisation.
- images: energies of the digits (IGEBM), without spectral norm where it says "bare".
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.named_columns import fid_columns, pick_columns

joint_rows = project("settings.joint_rows")

JEM, IMAGES = "configs/jem_digits.py", "configs/igebm_digits.py"
L2 = "--config.loss.energy_l2"
OPEN = "--config.sampler.box=none"
ENDS = {
    **pick_columns("largest loss", "skipped steps"),
    **fid_columns("buffer"),
    **pick_columns("RMS displacement of fresh chains"),
}

STUDIES = {
    "": Study(
        rows={
            f"{box}, L2 {weight:g}": [JEM, *flags, f"{L2}={weight}"]
            for box, flags in (("box", []), ("no box", [OPEN]))
            for weight in (0.0, 0.001, 0.01, 0.1)
        },
        columns={
            **pick_columns("accuracy, %", "ECE, %"),
            "f of data - of samples, nats": ("energy_gap", 1.0, 2),
            **ENDS,
        },
        common=(*joint_rows.ONCE, *joint_rows.skip("ood", "robustness", "landscape")),
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
        columns={**pick_columns("energy of samples - of data, nats"), **ENDS},
        common=joint_rows.ONCE,
    ),
}
