"""SADA-JEM's tables on CIFAR.

TFDS_DATA_DIR names the folder of the data. Variants at the paper's size, for a GPU: "models" and
"models_cifar100" (Tables 1 and 2), "steps" (SADA-JEM by K, the rate stepped down and by a cosine),
"ablation" (Table 5: a row and the one it is held beside differ in one thing; JEM has its own
recipe) and "radius" (Table 6). "cpu": what p(x) without augmentation and SAM do to a small network
on 5,000 images of 16x16, 6 to 20 minutes of training a row on two cores beside other work.
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
    "JEM++": f"{SADAJEM}:jempp",
    "JEM++, SAM": f"{SADAJEM}:jempp_sam",
    "JEM++, p(x) unaugmented": f"{SADAJEM}:jempp_unaugmented",
    "JEM++, p(x) unaugmented, energy L2": f"{SADAJEM}:jempp_unaugmented_l2",
    "SADA-JEM": SADAJEM,
}


def models(data: str) -> dict[str, str]:
    """The rows of Tables 1 and 2, each by its own recipe, on "cifar10" or "cifar100"."""
    jem, jempp, sadajem = (f"configs/{name}_{data}.py" for name in ("jem", "jempp", "sadajem"))
    return {
        "SADA-JEM, K = 5": f"{sadajem}:k5",
        "SADA-JEM, K = 10": sadajem,
        "SADA-JEM, K = 20": f"{sadajem}:k20",
        "JEM, K = 20": jem,
        "JEM++, M = 5": f"{jempp}:m5",
        "JEM++, M = 10": jempp,
        "JEM++, M = 20": f"{jempp}:m20",
        "softmax": f"{sadajem}:softmax",
        "softmax, SAM": f"{sadajem}:softmax_sam",
    }


COSINE = "--config.optimizer.schedule=cosine"
STEPS = {
    f"K = {k}{', cosine' if flags else ''}": [f"{SADAJEM}{variant}", *flags]
    for flags in ([], [COSINE])
    for k, variant in ((5, ":k5"), (10, ""), (20, ":k20"))
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


def study(rows: Mapping[str, str | Sequence[str]]) -> Study:
    """Of the same columns, one seed."""
    return Study(rows=rows, columns=COLUMNS, num_seeds=1)


STUDIES = {
    # Table 3 is of the same models; Fig. 4(a) is of a classifier without normalisation.
    "models": study(
        {**models("cifar10"), "softmax, no normalisation": "configs/jem_cifar10.py:softmax"}
    ),
    "models_cifar100": study(models("cifar100")),
    "steps": study(STEPS),
    "ablation": study(ABLATION),
    "radius": study({name: f"{SADAJEM}:{name}" for name in RADII}),
    "cpu": study(SMALL),
}
