"""5 % of the digits' labels: a set on which accuracies can differ.

Models train on nine images of each class, 90 of 1,797, and are judged on 1,300 others, in pairs on
the same images. The error of an accuracy of 90 % is then 0.8 points. All of the digits leave no
room: there every model has 98 to 99 %. p(x) is learnt from the same 90 images. Every row has 600
updates of 45 labelled images, with the optimiser of configs/jem_digits.py.

The first row is what the study's differences are taken from.

Variants:
- "": classifiers, JEM, SADA-JEM and JEM++ by their lengths, SVGD, SAM and the robust objective.
- radius: the radii of SAM and ASAM (SADA-JEM's Table 6).
- quick: a few updates of two rows.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.named_columns import auroc_columns, pick_columns

skip = project("settings.joint_rows").skip

SADAJEM, JEM = "configs/sadajem_digits.py", "configs/jem_digits.py"
JEMPP, SVGD = "configs/jempp_digits.py", "configs/svgdjem_digits.py"
ROWS = {
    "softmax": f"{JEM}:softmax",
    "softmax, SAM": f"{JEM}:softmax_sam",
    "JEM": JEM,
    "JEM, SAM": f"{JEM}:sam",
    "JEM, augmented": f"{JEM}:augmented",
    "JEM, p(x) unaugmented": f"{JEM}:unaugmented",
    "SADA-JEM, K = 5": f"{SADAJEM}:k5",
    "SADA-JEM, K = 10": SADAJEM,
    "SADA-JEM, K = 20": f"{SADAJEM}:k20",
    "SADA-JEM, without SAM": [SADAJEM, "--config.optimizer.rho=None"],
    "SADA-JEM's classifier": [SADAJEM, "--config.loss.generative_weight=0"],
    "JEM++, M = 5": f"{JEMPP}:m5",
    "JEM++, M = 10": JEMPP,
    "JEM++, M = 20": f"{JEMPP}:m20",
    "SVGD, beta 0.1": SVGD,
    "SVGD, beta 0.1, SAM": f"{SVGD}:sam",
    "unconfined JEM, exponent 0": f"{JEM}:unconfined",
    "unconfined JEM, exponent 2": f"{JEM}:beta_2",
}
RADIUS = {"without": [SADAJEM, "--config.optimizer.rho=None"]} | {
    f"{name.upper()}, rho {rho}": [
        SADAJEM,
        *make_flags({"optimizer.rho": rho, "optimizer.adaptive": name == "asam"}),
    ]
    for name, radii in (("sam", (0.05, 0.1, 0.2, 0.4, 0.8)), ("asam", (0.5, 1.0, 2.0, 4.0, 8.0)))
    for rho in radii
}
COLUMNS = {
    **pick_columns("accuracy, %", "ECE, %", "NLL, nats"),
    "Brier score": ("classification.brier", 1.0, 3),
    **auroc_columns({"interp": "interp"}, "log p(x)", "max p(y|x)"),
}
COMMON = (
    "--config.data.holdout=1300",
    "--config.data.num_per_class=9",
    "--config.mesh.num_shards=1",
    "--config.train.batch_size=45",
    "--config.train.positive_batch_size=45",
    "--config.train.num_epochs=300",
    "--config.train.steps_per_dispatch=20",
    "--config.train.log_every=20",
    "--config.train.checkpoint_every_epochs=300",
    "--config.optimizer.decay_epochs=(180, 255)",
    "--config.eval.every_epochs=300",
    *skip("robustness", "generation", "landscape"),
)
QUICK = ("train.num_epochs", "train.checkpoint_every_epochs", "eval.every_epochs")

STUDY = Study(rows=ROWS, columns=COLUMNS, common=COMMON)
STUDIES = {
    "": STUDY,
    "radius": Study(rows=RADIUS, columns=COLUMNS, common=COMMON),
    "quick": STUDY.shorten(("softmax", "SADA-JEM, K = 5"), *make_flags(dict.fromkeys(QUICK, 10))),
}
