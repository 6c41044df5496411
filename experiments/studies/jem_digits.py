"""The joint family on the packaged digits: samplers, SAM, augmentation, SVGD, the robust objective.

Every row trains WRN-10-1 for 40 epochs of 22 steps with the same optimiser; a row's name says what
differs. There are 357 test images, so a percentage point of accuracy is 3.6 images. landscapes.png
has energies around the parameters of four rows, on one colour scale.

Variants:
- "": samplers, SAM, augmentation, SVGD, the robust objective.
- jempp: JEM++ with PYLD.
- steps: SADA-JEM's Fig. 3, accuracy and FID over training by K, in training.png.
- ablation, radius: SADA-JEM's Tables 5 and 6; radius_batch: the latter with batch normalisation.
- scenarios: the robust-objective paper's Table 2, beta 0 and above in changed settings.
  training_SCENARIO.png are its Figs. 16 and 20 to 25.
- norm: the statistics that batch normalisation uses.
- norm_parts: the parts of SADA-JEM that are needed to sample with it.
- verdicts: accuracy and calibration of four rows, compared on the same images.
- time: only SVGD and SGLD, to compare seconds. Use an idle machine and as many jobs as CPUs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.fid_columns import fid_columns

differences = project("settings.differences")
figures = project("figures.joint")

LANDSCAPES = {
    "JEM, SGLD": "SGLD",
    "JEM, SGLD, SAM": "SGLD, SAM",
    "JEM, augmented": "augmented",
    "JEM, p(x) unaugmented": "p(x) unaugmented",
}
POINTS = "--config.eval.landscape_points=11"

ROWS = {
    "softmax": "configs/jem_digits.py:softmax",
    "softmax, SAM": "configs/jem_digits.py:softmax_sam",
    "JEM, SGLD": ["configs/jem_digits.py", POINTS],
    "JEM, SGLD, SAM": ["configs/jem_digits.py:sam", POINTS],
    "JEM, pSGLD": "configs/jem_digits.py:psgld",
    "JEM, MALA": "configs/jem_digits.py:mala",
    "JEM, augmented": ["configs/jem_digits.py:augmented", POINTS],
    "JEM, p(x) unaugmented": ["configs/jem_digits.py:unaugmented", POINTS],
    "SADA-JEM, K = 5": "configs/sadajem_digits.py:k5",
    "SADA-JEM, K = 10": "configs/sadajem_digits.py",
    "SADA-JEM, K = 20": "configs/sadajem_digits.py:k20",
    "SADA-JEM, as published": "configs/sadajem_digits.py:literal",
    "SVGD, literal": "configs/svgdjem_digits.py:literal",
    "SVGD, literal, SAM": "configs/svgdjem_digits.py:literal_sam",
    "SVGD, corrected": "configs/svgdjem_digits.py:corrected",
    "SVGD, corrected, SAM": "configs/svgdjem_digits.py:corrected_sam",
    "SVGD, beta 0.1": "configs/svgdjem_digits.py",
    "SVGD, beta 0.1, SAM": "configs/svgdjem_digits.py:sam",
    "stochastic SVGD, beta 0.1": "configs/svgdjem_digits.py:stochastic",
    "stochastic SVGD, beta 0.1, SAM": "configs/svgdjem_digits.py:stochastic_sam",
    "unconfined JEM, exponent 0": "configs/jem_digits.py:unconfined",
    "unconfined JEM, exponent 0.5": "configs/jem_digits.py:beta_half",
    "unconfined JEM, exponent 2": "configs/jem_digits.py:beta_2",
    "unconfined JEM, exponent 10": "configs/jem_digits.py:beta_10",
}
COLUMNS = {
    "accuracy, %": ("classification.accuracy", 100.0, 1),
    "ECE, %": ("classification.ece", 100.0, 1),
    "NLL, nats": ("classification.nll", 1.0, 3),
    # Means of two images are near the digits, patches of photographs are far.
    **{
        f"AUROC {title} / {name}": (f"ood.sets.{name}.{score}.auroc", 1.0, 3)
        for title, score in (
            ("log p(x)", "log_density"),
            ("max p(y|x)", "max_probability"),
            ("-|score|", "negative_score_norm"),
        )
        for name in ("interp", "natural_patches")
    },
    **fid_columns("buffer", "fresh"),
    "KID, fresh chains": ("generation.fresh.kid", 1.0, 0),
    "KID, their starts": ("generation.fresh.starts.kid", 1.0, 0),
    "KID, test images": ("generation.test_images.kid", 1.0, 0),
    "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
    "robust accuracy, linf 16/255, %": ("robustness.linf.16", 100.0, 1),
    "seconds of training": ("run_seconds", 1.0, 0),
}
COMMON = (
    "--config.train.checkpoint_every_epochs=40",
    "--config.eval.every_epochs=40",
    "--config.eval.attack_linf=(0, 16)",
    "--config.eval.attack_l2=()",
    "--config.eval.landscape_points=0",
)
# For the figures of what changes over training.
CURVES = (*COMMON, "--config.eval.every_epochs=4")

JEMPP = {
    "JEM++, M = 5": "configs/jempp_digits.py:m5",
    "JEM++, M = 10": "configs/jempp_digits.py",
    "JEM++, M = 20": "configs/jempp_digits.py:m20",
    "JEM++, M = 10, SAM": "configs/jempp_digits.py:sam",
    "the same by proximal SGLD, K = 10": "configs/jempp_digits.py:proximal",
    "JEM++, as published": "configs/jempp_digits.py:literal",
}
STEPS = {
    "K = 5": "configs/sadajem_digits.py:k5",
    "K = 10": "configs/sadajem_digits.py",
    "K = 20": "configs/sadajem_digits.py:k20",
}
ABLATION = {
    "JEM": "configs/sadajem_digits.py:jem",
    "JEM, SAM": "configs/sadajem_digits.py:jem_sam",
    "JEM++": "configs/sadajem_digits.py:jempp",
    "JEM++, SAM": "configs/sadajem_digits.py:jempp_sam",
    "JEM++, p(x) unaugmented": "configs/sadajem_digits.py:jempp_unaugmented",
    "JEM++, p(x) unaugmented, energy L2": "configs/sadajem_digits.py:jempp_unaugmented_l2",
    "SADA-JEM": "configs/sadajem_digits.py:sadajem",
    **{
        f"{label}, uniform start": [f"configs/sadajem_digits.py:{variant}", differences.UNIFORM]
        for label, variant in (
            ("JEM++", "jempp"),
            ("JEM++, p(x) unaugmented", "jempp_unaugmented"),
            ("SADA-JEM", "sadajem"),
        )
    },
}
RADIUS = {
    "SAM, rho 0.05": "configs/sadajem_digits.py:sam_005",
    "SAM, rho 0.1": "configs/sadajem_digits.py:sam_01",
    "SAM, rho 0.2": "configs/sadajem_digits.py:sam_02",
    "SAM, rho 0.4": "configs/sadajem_digits.py:sam_04",
    "SAM, rho 0.8": "configs/sadajem_digits.py:sam_08",
    "ASAM, rho 0.5": "configs/sadajem_digits.py:asam_05",
    "ASAM, rho 1": "configs/sadajem_digits.py:asam_1",
    "ASAM, rho 2": "configs/sadajem_digits.py:asam_2",
    "ASAM, rho 4": "configs/sadajem_digits.py:asam_4",
    "ASAM, rho 8": "configs/sadajem_digits.py:asam_8",
}
BATCH = "--config.model.norm=batch"
RADIUS_BATCH = {label: [config, BATCH] for label, config in RADIUS.items()}
SCENARIO_COLUMNS = (
    "accuracy, %",
    "ECE, %",
    *fid_columns("buffer", "fresh"),
    "RMS displacement of fresh chains",
)
SCENARIOS = {
    label: {
        f"{label}, exponent 0": f"configs/jem_digits.py:{name}",
        f"{label}, exponent 2": f"configs/jem_digits.py:{weighted}",
    }
    for label, name, weighted in (
        ("default", "unconfined", "beta_2"),
        ("5 steps", "steps_5", "steps_5_beta_2"),
        ("8 negatives", "negatives_8", "negatives_8_beta_2"),
        ("output scale x2", "scale_2", "scale_2_beta_2"),
        ("output scale x0.5", "scale_half", "scale_half_beta_2"),
        ("step x4", "step_4", "step_4_beta_2"),
        ("step x0.25", "step_quarter", "step_quarter_beta_2"),
    )
}
NORM = {
    "group": "configs/sadajem_digits.py",
    "batch": "configs/sadajem_digits.py:batch",
    "batch, p(x) by running averages": [
        "configs/sadajem_digits.py:batch",
        "--config.model.norm_policy=running",
    ],
    "batch, chains alone by running averages": [
        "configs/sadajem_digits.py:batch",
        "--config.model.norm_policy=running_chains",
    ],
    "SADA-JEM, as published": ROWS["SADA-JEM, as published"],
    "softmax, batch": ["configs/jem_digits.py:softmax", BATCH],
    "JEM, SGLD, batch": ["configs/jem_digits.py", BATCH],
    "group, uniform start": ["configs/sadajem_digits.py", differences.UNIFORM],
    "batch, uniform start": ["configs/sadajem_digits.py:batch", differences.UNIFORM],
    "SADA-JEM, as published, uniform start": [ROWS["SADA-JEM, as published"], differences.UNIFORM],
    "JEM, SGLD, group": ["configs/jem_digits.py", "--config.model.norm=group"],
}
# The rows of JEM start from uniform noise but for one, those of SADA-JEM from the informative law
# but for one: what else it takes shows from equal starts.
NORM_PARTS = differences.by_parts(
    ["configs/jem_digits.py", BATCH], [NORM["batch"]], differences.PARTS
) | {
    f"SADA-JEM, without {part}, uniform start": [NORM["batch"], *flags, differences.UNIFORM]
    for part, (_, flags) in differences.PARTS.items()
    if part != "informative start"
}
CLASSIFIED = ("accuracy, %", "ECE, %", "NLL, nats")
VERDICTS = {
    "softmax": ROWS["softmax"],
    "JEM, SGLD": "configs/jem_digits.py",
    "SADA-JEM, K = 10": ROWS["SADA-JEM, K = 10"],
    "SVGD, beta 0.1": ROWS["SVGD, beta 0.1"],
}
TIMED = ("JEM, SGLD", "SVGD, corrected", "SVGD, beta 0.1", "stochastic SVGD, beta 0.1")


def study(
    rows: Mapping[str, str | Sequence[str]], draw: Callable[[Path], None] | None = None
) -> Study:
    """A study of the same columns and evaluations."""
    return Study(rows=rows, columns=COLUMNS, common=COMMON, draw=draw)


STUDIES = {
    "": study(ROWS, partial(figures.landscapes, LANDSCAPES)),
    "jempp": study(JEMPP),
    "steps": Study(
        rows=STEPS, columns=COLUMNS, common=CURVES, draw=partial(figures.learning, list(STEPS))
    ),
    "ablation": study(ABLATION),
    "radius": study(RADIUS),
    "radius_batch": study(RADIUS_BATCH),
    "scenarios": Study(
        rows={label: config for rows in SCENARIOS.values() for label, config in rows.items()},
        columns={name: COLUMNS[name] for name in SCENARIO_COLUMNS},
        common=(*CURVES, "--config.eval.num_ood=0", "--config.eval.num_attacked=0"),
        draw=partial(figures.scenarios, {label: list(rows) for label, rows in SCENARIOS.items()}),
    ),
    "norm": study(NORM),
    "norm_parts": study(NORM_PARTS),
    "verdicts": Study(
        rows=VERDICTS,
        columns={name: COLUMNS[name] for name in CLASSIFIED},
        num_seeds=3,
        common=(
            *COMMON[:2],
            "--config.eval.num_ood=0",
            "--config.eval.num_attacked=0",
            "--config.eval.num_generated=0",
            "--config.eval.landscape_points=0",
        ),
    ),
    "time": study({label: ROWS[label] for label in TIMED}),
}
