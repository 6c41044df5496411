"""Profiles of chains while a model trains (sampling-approaches thesis, Figs. 4.7-4.16).

Acceptance along a chain at every fourth epoch, by the thesis's printed ratio and by the correct
one, and the preconditioner of pSGLD at two lambdas. "SGLD, literal ratio" weighs SGLD's moves by
the printed ratio and rejects none. chains.png has seed 0's rows.

Variants: "" is the joint model, igebm the energy of images.
"""

from collections.abc import Sequence

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import fid_columns, pick_columns

figures = project("figures.image")
skip = project("settings.joint_rows").skip

NOT_USED = "--config.sampler.options.rejects=False"


def make_rows(config: str, psgld: Sequence[str], damping: str) -> dict[str, str | Sequence[str]]:
    """The samplers of a configuration; ``psgld`` is that of lambda 1."""
    return {
        "SGLD": config,
        "SGLD, literal ratio": [f"{config}:mala_literal", NOT_USED],
        "MALA, literal": f"{config}:mala_literal",
        "MALA": f"{config}:mala",
        "pSGLD, lambda 1": psgld,
        f"pSGLD, lambda {damping}": [*psgld, f"--config.sampler.psgld.damping={damping}"],
    }


JEM, IGEBM = "configs/jem_digits.py", "configs/igebm_digits.py"
ROWS = make_rows(JEM, [JEM, "--config.sampler.name=psgld"], "1e-4")
IGEBM_ROWS = make_rows(IGEBM, [f"{IGEBM}:psgld"], "0.01")
CHAINS = {
    **fid_columns("buffer", "fresh"),
    **pick_columns("acceptance, end of training", "distance travelled"),
    "preconditioner G": ("chain_preconditioner", 1.0, 3),
}
COMMON = ("--config.evals.every_epochs=4", "--config.evals.profile.every=1")


STUDIES = {
    "": Study(
        rows=ROWS,
        columns={**pick_columns("accuracy, %", "ECE, %"), **CHAINS},
        num_seeds=3,
        common=(*COMMON, *skip("ood", "robustness", "landscape")),
        draw=(figures.profiles,),
    ),
    "igebm": Study(
        rows=IGEBM_ROWS,
        num_seeds=3,
        columns=CHAINS,
        common=COMMON,
        draw=(figures.profiles,),
    ),
}
