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

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.named_columns import auroc_columns, fid_columns, pick_columns

figures = project("figures.joint")
joint = project("settings.joint")
joint_rows = project("settings.joint_rows")
skip, ONCE, UNIFORM = joint_rows.skip, joint_rows.ONCE, joint_rows.UNIFORM

JEM, JEMPP = "configs/jem_digits.py", "configs/jempp_digits.py"
SADAJEM, SVGD = "configs/sadajem_digits.py", "configs/svgdjem_digits.py"
LANDSCAPES = {
    "JEM, SGLD": "SGLD",
    "JEM, SGLD, SAM": "SGLD, SAM",
    "JEM, augmented": "augmented",
    "JEM, p(x) unaugmented": "p(x) unaugmented",
}
POINTS = "--config.eval.landscape.num_points=11"

ROWS = {
    "softmax": f"{JEM}:softmax",
    "softmax, SAM": f"{JEM}:softmax_sam",
    "JEM, SGLD": [JEM, POINTS],
    "JEM, SGLD, SAM": [f"{JEM}:sam", POINTS],
    "JEM, pSGLD": f"{JEM}:psgld",
    "JEM, MALA": f"{JEM}:mala",
    "JEM, augmented": [f"{JEM}:augmented", POINTS],
    "JEM, p(x) unaugmented": [f"{JEM}:unaugmented", POINTS],
    "SADA-JEM, K = 5": f"{SADAJEM}:k5",
    "SADA-JEM, K = 10": SADAJEM,
    "SADA-JEM, K = 20": f"{SADAJEM}:k20",
    "SADA-JEM, as published": f"{SADAJEM}:literal",
    "SVGD, literal": f"{SVGD}:literal",
    "SVGD, literal, SAM": f"{SVGD}:literal_sam",
    "SVGD, corrected": f"{SVGD}:corrected",
    "SVGD, corrected, SAM": f"{SVGD}:corrected_sam",
    "SVGD, beta 0.1": SVGD,
    "SVGD, beta 0.1, SAM": f"{SVGD}:sam",
    "stochastic SVGD, beta 0.1": f"{SVGD}:stochastic",
    "stochastic SVGD, beta 0.1, SAM": f"{SVGD}:stochastic_sam",
    "unconfined JEM, exponent 0": f"{JEM}:unconfined",
    "unconfined JEM, exponent 0.5": f"{JEM}:beta_half",
    "unconfined JEM, exponent 2": f"{JEM}:beta_2",
    "unconfined JEM, exponent 10": f"{JEM}:beta_10",
}
CLASSIFIED = pick_columns("accuracy, %", "ECE, %", "NLL, nats")
# Means of two images are near the digits, patches of photographs are far.
OTHERS = {name: name for name in ("interp", "natural_patches")}
SAMPLES = fid_columns("buffer", "fresh")
COLUMNS = {
    **CLASSIFIED,
    **auroc_columns(OTHERS, "log p(x)", "max p(y|x)", "-|score|"),
    **SAMPLES,
    "KID, fresh chains": ("generation.fresh.kid", 1.0, 0),
    "KID, their starts": ("generation.fresh.starts.kid", 1.0, 0),
    "KID, test images": ("generation.test_images.kid", 1.0, 0),
    "robust accuracy, linf 16/255, %": ("robustness.linf.16", 100.0, 1),
    **pick_columns("seconds of training"),
}
COMMON = (
    *ONCE,
    "--config.eval.robustness.linf=(0, 16)",
    "--config.eval.robustness.l2=()",
    *skip("landscape"),
)
# For the figures of what changes over training.
CURVES = (*COMMON, "--config.eval.every_epochs=4")

JEMPP_ROWS = {
    "JEM++, M = 5": f"{JEMPP}:m5",
    "JEM++, M = 10": JEMPP,
    "JEM++, M = 20": f"{JEMPP}:m20",
    "JEM++, M = 10, SAM": f"{JEMPP}:sam",
    "the same by proximal SGLD, K = 10": f"{JEMPP}:proximal",
    "JEM++, as published": f"{JEMPP}:literal",
}
STEPS = {"K = 5": f"{SADAJEM}:k5", "K = 10": SADAJEM, "K = 20": f"{SADAJEM}:k20"}
ABLATION = {
    "JEM": f"{SADAJEM}:jem",
    "JEM, SAM": f"{SADAJEM}:jem_sam",
    "JEM++": f"{SADAJEM}:jempp",
    "JEM++, SAM": f"{SADAJEM}:jempp_sam",
    "JEM++, p(x) unaugmented": f"{SADAJEM}:jempp_unaugmented",
    "JEM++, p(x) unaugmented, energy L2": f"{SADAJEM}:jempp_unaugmented_l2",
    "SADA-JEM": f"{SADAJEM}:sadajem",
    "JEM++, uniform start": [f"{SADAJEM}:jempp", UNIFORM],
    "JEM++, p(x) unaugmented, uniform start": [f"{SADAJEM}:jempp_unaugmented", UNIFORM],
    "SADA-JEM, uniform start": [f"{SADAJEM}:sadajem", UNIFORM],
}
RADIUS = {
    f"{kind}, rho {rho:g}": f"{SADAJEM}:{kind.lower()}_{name}"
    for kind, radii in (("SAM", joint.SAM), ("ASAM", joint.ASAM))
    for name, rho in radii.items()
}
BATCH = "--config.model.norm=batch"
SCENARIOS = {
    "default": joint_rows.exponent_rows("default", f"{JEM}:unconfined", f"{JEM}:beta_", ("2",)),
    **{
        label: joint_rows.exponent_rows(label, f"{JEM}:{name}", f"{JEM}:{name}_beta_", ("2",))
        for label, name in joint_rows.SCENARIOS.items()
    },
}
IN_BATCHES = f"{SADAJEM}:batch"
NORM = {
    "group": SADAJEM,
    "batch": IN_BATCHES,
    "batch, p(x) by running averages": [IN_BATCHES, "--config.model.norm_policy=running"],
    "batch, chains alone by running averages": [
        IN_BATCHES,
        "--config.model.norm_policy=running_chains",
    ],
    "SADA-JEM, as published": f"{SADAJEM}:literal",
    "softmax, batch": [f"{JEM}:softmax", BATCH],
    "JEM, SGLD, batch": [JEM, BATCH],
    "group, uniform start": [SADAJEM, UNIFORM],
    "batch, uniform start": [IN_BATCHES, UNIFORM],
    "SADA-JEM, as published, uniform start": [f"{SADAJEM}:literal", UNIFORM],
    "JEM, SGLD, group": [JEM, "--config.model.norm=group"],
}
# One row of JEM starts from the informative distribution, one of SADA-JEM from uniform noise: equal
# starts show what else differs.
BY_PARTS = joint_rows.rows_by_parts([JEM, BATCH], [IN_BATCHES], joint_rows.PARTS)
NORM_PARTS = BY_PARTS | {
    f"{label}, uniform start": [*row, UNIFORM]
    for label, row in BY_PARTS.items()
    if label.startswith("SADA-JEM") and UNIFORM not in row
}
TIMED = ("JEM, SGLD", "SVGD, corrected", "SVGD, beta 0.1", "stochastic SVGD, beta 0.1")

study = partial(Study, columns=COLUMNS, common=COMMON)
STUDIES = {
    "": study(ROWS, draw=partial(figures.landscapes, LANDSCAPES)),
    "jempp": study(JEMPP_ROWS),
    "steps": study(STEPS, common=CURVES, draw=partial(figures.learning, list(STEPS))),
    "ablation": study(ABLATION),
    "radius": study(RADIUS),
    "radius_batch": study({label: [config, BATCH] for label, config in RADIUS.items()}),
    "scenarios": Study(
        {label: config for rows in SCENARIOS.values() for label, config in rows.items()},
        {**pick_columns("accuracy, %", "ECE, %"), **SAMPLES},
        common=(*CURVES, *skip("ood", "robustness")),
        draw=partial(figures.scenarios, {label: list(rows) for label, rows in SCENARIOS.items()}),
    ),
    "norm": study(NORM),
    "norm_parts": study(NORM_PARTS),
    "verdicts": Study(
        {
            "softmax": f"{JEM}:softmax",
            "JEM, SGLD": JEM,
            "SADA-JEM, K = 10": SADAJEM,
            "SVGD, beta 0.1": SVGD,
        },
        CLASSIFIED,
        num_seeds=3,
        common=(*ONCE, *skip()),
    ),
    "time": study({label: ROWS[label] for label in TIMED}),
}
