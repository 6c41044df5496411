"""The joint family on the packaged digits: samplers, SAM, augmentation, SVGD, the robust objective.

Every row trains WRN-10-1 for 40 epochs of 22 steps with the same optimiser; a row's name says what
differs. There are 357 test images, so a percentage point of accuracy is 3.6 images. "ablation" and
"radius" are SADA-JEM's Tables 5 and 6, "scenarios" the robust-objective paper's Table 2.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import auroc_columns, fid_columns, pick_columns

figures = project("figures.joint")
joint = project("settings.joint")
joint_rows = project("settings.joint_rows")
skip, ONCE = joint_rows.skip, joint_rows.ONCE

JEM, JEMPP = "configs/jem_digits.py", "configs/jempp_digits.py"
SADAJEM, SVGD = "configs/sadajem_digits.py", "configs/svgdjem_digits.py"

ROWS = {
    "softmax": f"{JEM}:softmax",
    "softmax, SAM": f"{JEM}:softmax_sam",
    "JEM, SGLD": JEM,
    "JEM, SGLD, SAM": f"{JEM}:sam",
    "JEM, pSGLD": f"{JEM}:psgld",
    "JEM, MALA": f"{JEM}:mala",
    "JEM, augmented": f"{JEM}:augmented",
    "JEM, p(x) unaugmented": f"{JEM}:unaugmented",
    "SADA-JEM, K = 5": f"{SADAJEM}:k5",
    "SADA-JEM, K = 10": SADAJEM,
    "SADA-JEM, K = 20": f"{SADAJEM}:k20",
    "SADA-JEM, as published": f"{SADAJEM}:literal",
    "JEM++, M = 5": f"{JEMPP}:m5",
    "JEM++, M = 10": JEMPP,
    "JEM++, M = 20": f"{JEMPP}:m20",
    "JEM++, as published": f"{JEMPP}:literal",
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
    **auroc_columns(OTHERS, "log_density", "max_probability", "negative_score_norm"),
    **SAMPLES,
    "KID, fresh chains": ("generation.fresh.kid", 1.0, 0),
    "KID, their starts": ("generation.fresh.starts.kid", 1.0, 0),
    "KID, test images": ("generation.test_images.kid", 1.0, 0),
    "robust accuracy, linf 16/255, %": ("robustness.linf.16", 100.0, 1),
    **pick_columns("seconds of training"),
}
COMMON = (
    *ONCE,
    "--config.evals.robustness.linf=(0, 16)",
    "--config.evals.robustness.l2=()",
    *skip("landscape"),
)
ABLATION = {
    "JEM": f"{SADAJEM}:jem",
    "JEM, SAM": f"{SADAJEM}:jem_sam",
    "JEM++": f"{SADAJEM}:jempp",
    "JEM++, SAM": f"{SADAJEM}:jempp_sam",
    "JEM++, p(x) unaugmented": f"{SADAJEM}:jempp_unaugmented",
    "JEM++, p(x) unaugmented, energy L2": f"{SADAJEM}:jempp_unaugmented_l2",
    "SADA-JEM": f"{SADAJEM}:sadajem",
}
RADIUS = {
    f"{kind}, rho {rho:g}": f"{SADAJEM}:{kind.lower()}_{name}"
    for kind, radii in (("SAM", joint.SAM), ("ASAM", joint.ASAM))
    for name, rho in radii.items()
}
SCENARIOS = {
    "default": joint_rows.exponent_rows("default", f"{JEM}:unconfined", f"{JEM}:beta_", ("2",)),
    **{
        label: joint_rows.exponent_rows(label, f"{JEM}:{name}", f"{JEM}:{name}_beta_", ("2",))
        for label, name in joint_rows.SCENARIOS.items()
    },
}
study = partial(Study, columns=COLUMNS, common=COMMON)
STUDIES = {
    "": study(ROWS),
    "ablation": study(ABLATION),
    "radius": study(RADIUS),
    "scenarios": Study(
        {label: config for rows in SCENARIOS.values() for label, config in rows.items()},
        {**pick_columns("accuracy, %", "ECE, %"), **SAMPLES},
        common=(*ONCE, "--config.evals.every_epochs=4", *skip("ood", "robustness", "landscape")),
        draw=(partial(figures.scenarios, {k: list(rows) for k, rows in SCENARIOS.items()}),),
    ),
}
