"""Joint models on CIFAR-10: SADA-JEM's Tables 1, 5 and 6, and the sampling-approaches thesis's 4.2.

TFDS_DATA_DIR names the folder of the data. Variants: "ablation" (SADA-JEM's parts, Table 5),
"radius" (Table 6), "steps" (Table 1) and "samplers" (Table 4.2 of the thesis: accuracy 89, 89 and
88 % and FID 57, 59 and 56 with SGLD, pSGLD and MALA after 100 epochs) at full size, for a GPU;
"cpu", what p(x) without augmentation and SAM do to a small network on 5,000 images of 16x16, 6 to
20 minutes of training a row on two cores beside other work.
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
SAMPLERS = {
    "SGLD": "configs/jem_cifar10.py",
    "pSGLD, lambda 1": "configs/jem_cifar10.py:psgld",
    "MALA": "configs/jem_cifar10.py:mala",
    "MALA, literal": "configs/jem_cifar10.py:mala_literal",
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


def study(rows: Mapping[str, str | Sequence[str]], common: tuple[str, ...] = ()) -> Study:
    """Of the same columns, one seed."""
    return Study(rows=rows, columns=COLUMNS, num_seeds=1, common=common)


STUDIES = {
    "ablation": study(ABLATION),
    "radius": study({name: f"{SADAJEM}:{name}" for name in RADII}),
    "steps": study(STEPS),
    "samplers": study(SAMPLERS, ("--config.train.num_epochs=100",)),
    "cpu": study(SMALL),
}
