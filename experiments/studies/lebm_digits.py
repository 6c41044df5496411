"""A latent EBM prior on the digits, against a Gaussian one, and with chains that persist.

Rows are variants of configs/lebm_digits.py, each with five seeds. The log evidence
is that of 8 test images, by annealed importance sampling with chains long enough for deep priors.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study

thermo = project("studies.thermo_digits")
CONFIG = "configs/lebm_digits.py"

STUDY = Study(
    rows={
        "energy": CONFIG,
        "Gaussian": f"{CONFIG}:gaussian",
        "energy, persistent chains": f"{CONFIG}:persistent",
    },
    columns=thermo.COLUMNS | thermo.ENERGIES,
    num_seeds=5,
    common=(
        "--config.evals.evidence.methods=('ais',)",
        "--config.evals.evidence.num_images=8",
        "--config.evals.evidence.num_intervals=60",
        "--config.evals.evidence.num_steps=40",
    ),
)
