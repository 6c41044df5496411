"""Steps of Langevin chains that train an image energy, with noise of its own or the step's.

The sampling-approaches thesis (3.3.1, 4.2, chapter 5) says of energies of images: a step of 1e-5
does not train; a step of 10 to 100 is suitable; and noise of sqrt(2 step) destroys the samples.
"Decoupled" has noise 0.01 at every step. "Coupled" has sqrt(2 step), which is temperature 1.
"""

from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import fid_columns, pick_columns

CONFIG = "configs/igebm_digits.py"
COLUMNS = {
    **fid_columns("buffer", "fresh"),
    **pick_columns("energy of samples - of data, nats"),
    "squared distance travelled, a pixel": ("chain_displacement", 1.0, 6),
    "acceptance, T implied": ("chain_acceptance_prob", 1.0, 2),
    **pick_columns("largest loss", "skipped steps"),
}

SGLD = "--config.sampler.sgld"
ROWS = {
    "decoupled": [CONFIG, f"{SGLD}.noise_scale=0.01"],
    "coupled": [CONFIG, f"{SGLD}.noise_scale=None", f"{SGLD}.temperature=1.0"],
}
STUDY = Study(
    rows={
        f"{label}, step_size={step}": [*row, f"{SGLD}.step_size={step}"]
        for label, row in ROWS.items()
        for step in (1e-5, 1e-3, 1e-1, 1.0, 10.0, 30.0, 100.0, 1000.0)
    },
    columns=COLUMNS,
    num_seeds=3,
)
