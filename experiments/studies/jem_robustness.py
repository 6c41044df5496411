"""Robustness and energy landscapes of the joint family on the digits; hybrids trained on attacks.

SADA-JEM's Figs. 1, 5 and 7: landscapes (landscapes.png, seed 0), and accuracy under attack in both
norms, of images as they are and refined by ten steps of a sampler. Refined images are attacked as
if the chain had the derivative 1 (BPDA), and through the chain's own derivative; broken by either
is broken.

"hybrid" has classifier, generator and robustness in a row: models that are trained on attacked
images beside those that are not, judged by AutoPGD.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.table import fid_columns, pick_columns

figures = project("figures.joint")
joint_rows = project("settings.joint_rows")

JEM, SADAJEM = "configs/jem_digits.py", "configs/sadajem_digits.py"
# SADA-JEM's chains have no noise, so one copy is the mean over copies.
REFINED = "--config.evals.robustness.refine_steps=10"
COPIES = "--config.evals.robustness.num_eot=2"
PROXIMAL = make_flags({"sampler.name": "proximal_sgld", "sampler.low": -1.0, "sampler.high": 1.0})
ROWS = {
    "softmax": [f"{JEM}:softmax", REFINED, *PROXIMAL],
    "SADA-JEM's classifier": [SADAJEM, "--config.loss.generative_weight=0", REFINED],
    "JEM": [JEM, REFINED, COPIES],
    "JEM, SAM": [f"{JEM}:sam", REFINED, COPIES],
    "SADA-JEM, K = 5": [f"{SADAJEM}:k5", REFINED],
    "SADA-JEM, K = 10": [SADAJEM, REFINED],
    "SADA-JEM, K = 20": [f"{SADAJEM}:k20", REFINED],
}
ATTACKS = {
    "": "robustness.",
    ", refined": "robustness.refined.",
    ", refined, BPDA alone": "robustness.refined.by_gradient.bpda.",
    ", refined, through the chain alone": "robustness.refined.by_gradient.full.",
}
COLUMNS = {
    **pick_columns("accuracy, %"),
    "landscape's range, nats": ("landscape.landscape_range", 1.0, 1),
    **{
        f"{norm} {level}/255{attack}, %": (f"{part}{norm}.{level}", 100.0, 1)
        for attack, part in ATTACKS.items()
        for norm, levels in (("linf", (16, 32, 64)), ("l2", (128, 256)))
        for level in levels
    },
    "images with a gradient, linf 64/255, %": ("robustness.usable_gradient.linf.64", 100.0, 1),
    "the same, refined": ("robustness.refined.usable_gradient.linf.64", 100.0, 1),
}
LEVELS = (0, 16, 32, 64)
EB_JDAT = f"{JEM}:eb_jdat"
HYBRIDS = {
    "softmax": f"{JEM}:softmax",
    "softmax, attacked": [EB_JDAT, "--config.loss.generative_weight=0"],
    "JEM": JEM,
    "SADA-JEM": SADAJEM,
    "JEM, attacked": [EB_JDAT, "--config.loss.adversarial_weight=0"],
    "EB-JDAT": EB_JDAT,
    "DAT": f"{JEM}:dat",
}
STUDIES = {
    "": Study(
        rows=ROWS,
        columns=COLUMNS,
        num_seeds=3,
        common=(
            *joint_rows.ONCE,
            *joint_rows.skip("ood", "generation"),
            f"--config.evals.robustness.linf={LEVELS}",
            "--config.evals.robustness.l2=(0, 128, 256)",
            "--config.evals.robustness.num_restarts=2",
        ),
        draw=(figures.landscapes,),
    ),
    "hybrid": Study(
        rows=HYBRIDS,
        columns={
            **pick_columns("accuracy, %", "ECE, %"),
            **{f"AutoPGD, linf {n}/255, %": (f"robustness.linf.{n}", 100.0, 1) for n in LEVELS},
            **fid_columns("buffer", "fresh"),
            **pick_columns("seconds of training"),
        },
        num_seeds=3,
        common=(
            *joint_rows.ONCE,
            *joint_rows.skip("ood", "landscape"),
            "--config.evals.robustness.attack=apgd_t",
            "--config.evals.robustness.num_steps=30",
            f"--config.evals.robustness.linf={LEVELS}",
            "--config.evals.robustness.l2=()",
        ),
    ),
}
