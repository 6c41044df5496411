"""SADA-JEM's ablation on CIFAR-10: its parts (Table 5), its radii (Table 6), its steps (Table 1).

TFDS_DATA_DIR names the folder of the data. Variants: "ablation", "radius" and "steps" at the
paper's size, for a GPU; "cpu", what p(x) without augmentation and SAM do to a small network on
5,000 images of 16x16, 6 to 20 minutes of training a row on two cores beside other work; "views",
which part of the augmentation of p(x) does it (section 3.2: crops, hardly flips), at that size.
"""

from collections.abc import Mapping, Sequence

from experiments.jem_radii import RADII
from experiments.study import Study

SADAJEM = "configs/sadajem_cifar10.py"
COLUMNS = {
    "accuracy, %": ("classification.accuracy", 100.0, 1),
    "ECE, %": ("classification.ece", 100.0, 1),
    "NLL, nats": ("classification.nll", 1.0, 3),
    "AUROC log p(x)": ("ood.mean_auroc.log_density", 1.0, 3),
    "FID (classifier features), buffer": ("generation.buffer.fid_classifier_features", 1.0, 2),
    "the same, fresh chains": ("generation.fresh.fid_classifier_features", 1.0, 2),
    "robust accuracy, linf 4/255, %": ("robustness.linf.4", 100.0, 1),
    "seconds of training": ("run_seconds", 1.0, 0),
}
ABLATION = {
    "JEM": "configs/jem_cifar10.py:k10",
    "JEM, SAM": "configs/jem_cifar10.py:k10_sam",
    "JEM++": "configs/jempp_cifar10.py",
    "JEM++, SAM": "configs/jempp_cifar10.py:sam",
    "JEM++, p(x) unaugmented": "configs/jempp_cifar10.py:unaugmented",
    "JEM++, p(x) unaugmented, energy L2": "configs/jempp_cifar10.py:unaugmented_l2",
    "SADA-JEM": SADAJEM,
}
STEPS = {
    f"SADA-JEM, K = {k}": f"{SADAJEM}{name}" for k, name in ((5, ":k5"), (10, ""), (20, ":k20"))
}
CPU = (f"{SADAJEM}:cpu", "--config.model.norm=batch")
SMALL = {
    f"p(x) {images}{', SAM' if is_sharp else ''}": [
        *CPU,
        f"--config.data.augment_positives={images == 'augmented'}",
        f"--config.optimizer.rho={0.05 if is_sharp else None}",
    ]
    for images in ("augmented", "unaugmented")
    for is_sharp in (False, True)
}
# As SADA-JEM, with SAM; "unaugmented" and "cropped and flipped" are rows of "cpu".
VIEWS = {
    "p(x) unaugmented": CPU,
    "p(x) flipped": [
        *CPU,
        "--config.data.augment_positives=True",
        "--config.data.positive_crop_padding=0",
    ],
    "p(x) cropped": [
        *CPU,
        "--config.data.augment_positives=True",
        "--config.data.positive_flip=False",
    ],
    "p(x) cropped and flipped": [*CPU, "--config.data.augment_positives=True"],
}


def study(rows: Mapping[str, str | Sequence[str]]) -> Study:
    """Of the same columns, one seed."""
    return Study(rows=rows, columns=COLUMNS, num_seeds=1)


STUDIES = {
    "ablation": study(ABLATION),
    "radius": study({name: f"{SADAJEM}:{name}" for name in RADII}),
    "steps": study(STEPS),
    "cpu": study(SMALL),
    "views": study(VIEWS),
}
