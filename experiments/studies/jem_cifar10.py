"""Tables of joint models on CIFAR: SADA-JEM's, and of two more papers.

--config.data.path=FOLDER names the folder of the data. --config.eval.inception_weights=FILE
names Inception's weights. Without them, FID and IS use features of a classifier of the run's
images, which no published number does.

Variants at the paper's size, for a GPU:
- models: Tables 1 and 3; models_cifar100: Table 2.
- steps: SADA-JEM by K, with the rate stepped down and by a cosine; training.png is Fig. 3.
- ablation: Table 5. A row and the row it is compared with differ in one thing; JEM has its own
  recipe.
- radius: Table 6.
- table1, scenarios: the robust-objective paper's Tables 1 and 2, JEM by the exponent of the
  weights.
- samplers: the sampling-approaches thesis's Table 4.2. It has accuracy 89, 89 and 88 % and FID 57,
  59 and 56 with SGLD, pSGLD and MALA after 100 epochs.

Variants for a CPU, on 5,000 images of 16x16:
- cpu: effects of p(x) without augmentation and of SAM on a small network. A row takes 6 to 20
  minutes of training on two cores beside other work.
- views: which part of the augmentation of p(x) matters (section 3.2: crops, hardly flips).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.fid_columns import fid_columns

figures = project("figures.joint")
RADII = project("settings.radii").RADII
scenarios = project("settings.robust_scenarios")

SADAJEM = "configs/sadajem_cifar10.py"
COLUMNS = {
    "accuracy, %": ("classification.accuracy", 100.0, 1),
    "ECE, %": ("classification.ece", 100.0, 1),
    "NLL, nats": ("classification.nll", 1.0, 3),
    **fid_columns("buffer", "fresh", decimals=2),
    "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
    "robust accuracy, linf 4/255, %": ("robustness.linf.4", 100.0, 1),
    "seconds of training": ("run_seconds", 1.0, 0),
}
# What SADA-JEM's code reports, beside what nothing is selected for.
SELECTED = {
    "FID ({extractor}), buffer, selected": ("generation.buffer_selected.fid", 1.0, 2),
    "IS ({extractor}), buffer": ("generation.buffer.is", 1.0, 2),
    "IS ({extractor}), buffer, selected": ("generation.buffer_selected.is", 1.0, 2),
    "FID ({extractor}), starts, selected": (
        "generation.buffer_selected.starts.fid",
        1.0,
        2,
    ),
    "IS ({extractor}), starts": ("generation.buffer.starts.is", 1.0, 2),
    "IS ({extractor}), starts, selected": (
        "generation.buffer_selected.starts.is",
        1.0,
        2,
    ),
    "IS ({extractor}), test images": ("generation.test_images.is", 1.0, 2),
}
SETS = {
    "SVHN": "svhn_cropped",
    "interp": "interp",
    "CIFAR-100": "cifar100",
    "CelebA": "celeb_a",
}
SETS_CIFAR100 = {
    "SVHN": "svhn_cropped",
    "interp": "interp",
    "CIFAR-10": "cifar10",
    "CelebA": "celeb_a",
}
SCORES = {"log p(x)": "log_density", "max p(y|x)": "max_probability"}
AUROC = {
    f"AUROC log p(x) / {name}": (f"ood.sets.{name}.log_density.auroc", 1.0, 3)
    for name in ("interp", "natural_patches")
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


def aurocs(sets: Mapping[str, str]) -> dict[str, tuple[str, float, int]]:
    """A column for each score and each of the ``sets``, label to name."""
    return {
        f"AUROC {label} / {set_label}": (f"ood.sets.{name}.{score}.auroc", 1.0, 3)
        for label, score in SCORES.items()
        for set_label, name in sets.items()
    }


def study(
    rows: Mapping[str, str | Sequence[str]],
    sets: Mapping[str, str] = SETS,
    draw: Callable[[Path], None] | None = None,
) -> Study:
    """At the paper's size: one seed."""
    return Study(
        rows=rows,
        columns=COLUMNS | SELECTED | aurocs(sets),
        num_seeds=1,
        common=("--config.eval.selected_by_confidence=True",),
        draw=draw,
    )


STUDIES = {
    # Table 3 is of the same models; Fig. 4(a) is of a classifier without normalisation.
    "models": study(
        {**models("cifar10"), "softmax, no normalisation": "configs/jem_cifar10.py:softmax"}
    ),
    "models_cifar100": study(models("cifar100"), SETS_CIFAR100),
    "steps": study(STEPS, draw=partial(figures.learning, list(STEPS))),
    "ablation": study(ABLATION),
    "radius": study({name: f"{SADAJEM}:{name}" for name in RADII}),
    "cpu": Study(rows=SMALL, columns=COLUMNS | AUROC, num_seeds=1),
    "views": Study(rows=VIEWS, columns=COLUMNS | AUROC, num_seeds=1),
    "samplers": Study(
        rows=SAMPLERS,
        columns=COLUMNS | AUROC,
        num_seeds=1,
        common=("--config.train.num_epochs=100",),
    ),
}

# The robust-objective paper's Tables 1 and 2. Samples are judged in the buffer and at their best
# over training, as there; its test accuracy is that of the best epoch by held-out images.
JEM = "configs/jem_cifar10.py"
DEFAULT = {"default, exponent 0": JEM} | {
    f"default, exponent {scenarios.EXPONENTS[name]:g}": f"{JEM}:beta_{name}"
    for name in scenarios.TABLE_1
}
SCENARIOS = {
    label: {f"{label}, exponent 0": f"{JEM}:{scenario}"}
    | {
        f"{label}, exponent {scenarios.EXPONENTS[name]:g}": f"{JEM}:{scenario}_beta_{name}"
        for name in sorted(scenarios.TABLE_2[scenario], key=scenarios.EXPONENTS.__getitem__)
    }
    for label, scenario in {
        "5 steps": "steps_5",
        "8 negatives": "negatives_8",
        "output scale x2": "scale_2",
        "output scale x0.5": "scale_half",
        "step x4": "step_4",
        "step x0.25": "step_quarter",
    }.items()
}


def robust(by_scenario: Mapping[str, Mapping[str, str]]) -> Study:
    """A study of the rows of each scenario; their curves are Figures 16 and 20 to 25."""
    return Study(
        rows={label: config for rows in by_scenario.values() for label, config in rows.items()},
        columns={
            "accuracy, %": COLUMNS["accuracy, %"],
            "IS, buffer, best over training": ("over_training.best_sample_is", 1.0, 2),
            "FID, buffer, best over training": ("over_training.best_sample_fid", 1.0, 2),
            "IS, draws of the starts": ("over_training.start_is", 1.0, 2),
            "FID, draws of the starts": ("over_training.start_fid", 1.0, 2),
            "IS ({extractor}), buffer": SELECTED["IS ({extractor}), buffer"],
            **fid_columns("buffer", decimals=2),
            "IS ({extractor}), starts": SELECTED["IS ({extractor}), starts"],
            "RMS displacement of fresh chains": COLUMNS["RMS displacement of fresh chains"],
            "seconds of training": COLUMNS["seconds of training"],
        },
        num_seeds=1,
        common=(
            "--config.data.holdout=5000",
            "--config.train.keep_best=test_accuracy",
            "--config.eval.checkpoint=best",
            "--config.eval.use_test_split=True",
        ),
        draw=partial(figures.scenarios, {label: list(rows) for label, rows in by_scenario.items()}),
    )


STUDIES |= {"table1": robust({"default": DEFAULT}), "scenarios": robust(SCENARIOS)}
