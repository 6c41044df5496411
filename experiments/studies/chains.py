"""Profiles of chains while a model trains (sampling-approaches thesis, Figs. 4.7-4.16).

The thesis shows the acceptance along a chain at a few points of training, for SGLD ("not used in
sampling") and MALA, for an energy of images and a joint model. It shows the preconditioner of pSGLD
at two lambdas. Here all are shown at every fourth epoch, by the thesis's printed ratio and by the
correct one. The preconditioned chains have SGLD's step. "SGLD, literal ratio" weighs SGLD's moves
by the printed ratio and rejects none; "SGLD" reports the correct one.

Figures: chains.png has seed 0's rows. training.png has the rows' test accuracy (Fig. 4.12),
acceptance (Fig. 4.15) and preconditioner (Fig. 4.16) over training.

Variants:
- "": the joint model.
- igebm: the energy of images.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.fid_columns import fid_columns
from ebmjax.recipes.study.figures import Panel, over_training

figures = project("figures.chains")

JEM, IGEBM = "configs/jem_digits.py", "configs/igebm_digits.py"
NOT_USED = "--config.sampler.literal_mala.rejects=False"
ROWS: dict[str, str | Sequence[str]] = {
    "SGLD": JEM,
    "SGLD, literal ratio": [f"{JEM}:mala_literal", NOT_USED],
    "MALA, literal": f"{JEM}:mala_literal",
    "MALA": f"{JEM}:mala",
    "pSGLD, lambda 1": [JEM, "--config.sampler.name=psgld"],
    "pSGLD, lambda 1e-4": [
        JEM,
        "--config.sampler.name=psgld",
        "--config.sampler.psgld.damping=1e-4",
    ],
}
IGEBM_ROWS: dict[str, str | Sequence[str]] = {
    "SGLD": IGEBM,
    "SGLD, literal ratio": [f"{IGEBM}:mala_literal", NOT_USED],
    "MALA, literal": f"{IGEBM}:mala_literal",
    "MALA": f"{IGEBM}:mala",
    "pSGLD, lambda 1": f"{IGEBM}:psgld",
    "pSGLD, lambda 0.01": [f"{IGEBM}:psgld", "--config.sampler.psgld.damping=0.01"],
}
PANELS: tuple[Panel, ...] = (
    ("chain_acceptance_prob", "acceptance in training", "linear"),
    ("chain_preconditioner", "preconditioner G, mean over pixels", "log"),
    ("sample_fid", "FID of the buffer ({extractor})", "log"),
)
ACCURACY: Panel = ("test_accuracy", "test accuracy", "linear")
CHAINS = {
    "acceptance, end of training": ("chain_acceptance_prob", 1.0, 3),
    "distance travelled": ("chain_displacement", 1.0, 5),
    "preconditioner G": ("chain_preconditioner", 1.0, 3),
}
COMMON = ("--config.eval.every_epochs=4", "--config.eval.num_profiled=64")


def draw(rows: Sequence[str], panels: Sequence[Panel], folder: Path) -> None:
    """The figures of a study's folder."""
    figures.draw_study(rows, folder)
    over_training(panels, "training", folder)


STUDIES = {
    "": Study(
        rows=ROWS,
        columns={
            "accuracy, %": ("classification.accuracy", 100.0, 1),
            "ECE, %": ("classification.ece", 100.0, 1),
            **fid_columns("buffer", "fresh"),
            "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
            **CHAINS,
        },
        num_seeds=3,
        common=(
            *COMMON,
            "--config.eval.num_ood=0",
            "--config.eval.num_attacked=0",
            "--config.eval.landscape_points=0",
        ),
        draw=partial(draw, tuple(ROWS), (ACCURACY, *PANELS)),
    ),
    "igebm": Study(
        rows=IGEBM_ROWS,
        num_seeds=3,
        columns={
            **fid_columns("buffer", "fresh"),
            "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
            **CHAINS,
        },
        common=COMMON,
        draw=partial(draw, tuple(IGEBM_ROWS), PANELS),
    ),
}
