"""Tables of joint models on CIFAR: SADA-JEM's, and of two more papers.

--config.data.path=FOLDER names the folder of the data, --config.evals.inception_weights=FILE
Inception's weights. Without them, FID and IS use features of a classifier of the run's images,
which no published number does. Variants at the papers' size, for a GPU:

- models, models_cifar100, steps (training.png is Fig. 3), ablation, radius: SADA-JEM. A row of the
  ablation and the row it is compared with differ in one thing; JEM has its own recipe.
- table1, scenarios: the robust-objective paper's, JEM by the exponent of the weights.
- samplers: the sampling-approaches thesis's Table 4.2. It has accuracy 89, 89 and 88 % and FID 57,
  59 and 56 with SGLD, pSGLD and MALA after 100 epochs.
- cpu: p(x) without augmentation and SAM, on 5,000 images of 16x16 and a small network.
"""

from collections.abc import Mapping
from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.table import auroc_columns, fid_columns, pick_columns

figures = project("figures.joint")
joint = project("settings.joint")
joint_rows = project("settings.joint_rows")

JEM, SADAJEM = "configs/jem_cifar10.py", "configs/sadajem_cifar10.py"
COLUMNS = {
    **pick_columns("accuracy, %", "ECE, %", "NLL, nats"),
    **fid_columns("buffer", "fresh"),
    "robust accuracy, linf 4/255, %": ("robustness.linf.4", 100.0, 1),
    **pick_columns("seconds of training"),
}
INCEPTION = {
    "IS ({extractor}), buffer": ("generation.buffer.is", 1.0, 2),
    "IS ({extractor}), starts": ("generation.buffer.starts.is", 1.0, 2),
}
# What SADA-JEM's code reports, beside what nothing is selected for.
SELECTED = {
    **INCEPTION,
    "IS ({extractor}), test images": ("generation.test_images.is", 1.0, 2),
    "FID ({extractor}), buffer, selected": ("generation.buffer_selected.fid", 1.0, 2),
    "IS ({extractor}), buffer, selected": ("generation.buffer_selected.is", 1.0, 2),
    "FID ({extractor}), starts, selected": ("generation.buffer_selected.starts.fid", 1.0, 2),
    "IS ({extractor}), starts, selected": ("generation.buffer_selected.starts.is", 1.0, 2),
}
INTERP = {"interp": "interp"}
SETS = {"SVHN": "svhn_cropped", **INTERP, "CIFAR-100": "cifar100", "CelebA": "celeb_a"}
SETS_CIFAR100 = {"SVHN": "svhn_cropped", **INTERP, "CIFAR-10": "cifar10", "CelebA": "celeb_a"}
ABLATION = {
    "JEM": f"{JEM}:k10",
    "JEM, SAM": f"{JEM}:k10_sam",
    "JEM++": f"{SADAJEM}:jempp",
    "JEM++, SAM": f"{SADAJEM}:jempp_sam",
    "JEM++, p(x) unaugmented": f"{SADAJEM}:jempp_unaugmented",
    "JEM++, p(x) unaugmented, energy L2": f"{SADAJEM}:jempp_unaugmented_l2",
    "SADA-JEM": SADAJEM,
}


SELECT = "--config.evals.generation.selected_by_confidence=True"


def models(data: str) -> dict[str, list[str]]:
    """The rows of Tables 1 and 2, each by its own recipe, on "cifar10" or "cifar100"."""
    jem, jempp, sadajem = (f"configs/{name}_{data}.py" for name in ("jem", "jempp", "sadajem"))
    generative = {
        "SADA-JEM, K = 5": f"{sadajem}:k5",
        "SADA-JEM, K = 10": sadajem,
        "SADA-JEM, K = 20": f"{sadajem}:k20",
        "JEM, K = 20": jem,
        "JEM++, M = 5": f"{jempp}:m5",
        "JEM++, M = 10": jempp,
        "JEM++, M = 20": f"{jempp}:m20",
    }
    return {
        **{label: [config, SELECT] for label, config in generative.items()},
        "softmax": [f"{sadajem}:softmax"],
        "softmax, SAM": [f"{sadajem}:softmax_sam"],
    }


COSINE = "--config.optimizer.schedule=cosine"
STEPS = {
    f"K = {k}{', cosine' if flags else ''}": [f"{SADAJEM}{variant}", *flags]
    for flags in ([], [COSINE])
    for k, variant in ((5, ":k5"), (10, ""), (20, ":k20"))
}
SAMPLERS = {
    "SGLD": JEM,
    "pSGLD, lambda 1": f"{JEM}:psgld",
    "MALA": f"{JEM}:mala",
    "MALA, literal": f"{JEM}:mala_literal",
}
CPU = (f"{SADAJEM}:cpu", "--config.model.norm=batch")
SMALL = {
    f"p(x) {images}{', SAM' if rho else ''}": [
        *CPU,
        f"--config.data.augment_positives={images == 'augmented'}",
        f"--config.optimizer.rho={rho}",
    ]
    for images in ("augmented", "unaugmented")
    for rho in (None, 0.05)
}
study = partial(Study, num_seeds=1)
paper = partial(
    study,
    columns=COLUMNS | SELECTED | auroc_columns(SETS, "log_density", "max_probability"),
)
STUDIES = {
    "models": paper({**models("cifar10"), "softmax, no normalisation": [f"{JEM}:softmax"]}),
    "models_cifar100": paper(
        models("cifar100"),
        columns=COLUMNS | SELECTED | auroc_columns(SETS_CIFAR100, "log_density", "max_probability"),
    ),
    "steps": paper(STEPS, common=(SELECT,), draw=(figures.learning,)),
    "ablation": paper(ABLATION, common=(SELECT,)),
    "radius": paper({name: f"{SADAJEM}:{name}" for name in joint.RADII}, common=(SELECT,)),
    "cpu": study(SMALL, COLUMNS | auroc_columns(INTERP, "log_density")),
    "samplers": study(SAMPLERS, COLUMNS, common=("--config.train.num_epochs=100",)),
}

# The robust-objective paper's Tables 1 and 2. Samples are judged in the buffer and at their best
# over training, as there; its test accuracy is that of the best epoch by held-out images.
DEFAULT = joint_rows.exponent_rows("default", JEM, f"{JEM}:beta_", joint.TABLE_1)
SCENARIOS = {
    label: joint_rows.exponent_rows(
        label, f"{JEM}:{name}", f"{JEM}:{name}_beta_", joint.TABLE_2[name]
    )
    for label, name in joint_rows.SCENARIOS.items()
}
ROBUST = {
    **pick_columns("accuracy, %"),
    "IS, buffer, best over training": ("over_training.best_sample_is.sample_is", 1.0, 2),
    "FID, buffer, best over training": ("over_training.best_sample_fid.sample_fid", 1.0, 2),
    "IS, draws of the starts": ("over_training.best_sample_is.start_is", 1.0, 2),
    "FID, draws of the starts": ("over_training.best_sample_fid.start_fid", 1.0, 2),
    **INCEPTION,
    **fid_columns("buffer"),
    **pick_columns("distance travelled", "seconds of training"),
}
JUDGED = {
    "data.holdout": 5000,
    "train.keep_best": "test_accuracy",
    "evals.checkpoint": "best",
    "evals.use_test_split": True,
}


def robust(by_scenario: Mapping[str, Mapping[str, str]]) -> Study:
    """A study of the rows of each scenario; their curves are Figures 16 and 20 to 25."""
    return study(
        {label: config for rows in by_scenario.values() for label, config in rows.items()},
        ROBUST,
        common=make_flags(JUDGED),
        draw=(partial(figures.scenarios, {k: list(rows) for k, rows in by_scenario.items()}),),
    )


STUDIES |= {"table1": robust({"default": DEFAULT}), "scenarios": robust(SCENARIOS)}
