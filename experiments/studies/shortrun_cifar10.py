"""Short-run energies of CIFAR-10 by beta, at a CPU's size: can the robust objective train them?

The claims are those of the configuration (robust-objective paper, section 4.2, appendices J and L,
Figures 12, 13 and 15): the mean weight of the data goes to 1, and nothing is learned.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import fid_columns, pick_columns

figures = project("figures.image")

CONFIG = "configs/shortrun_cifar10.py:cpu"
ROWS = {
    "beta 0": "",
    "beta 1e-6": "_beta_1e6",
    "beta 1e-5": "_beta_1e5",
    "beta 1e-4": "_beta_1e4",
    "beta 0.01": "_beta_001",
    "beta 0.1": "_beta_01",
}
COLUMNS = {
    **fid_columns("short"),
    "f of test images": ("energies.mean", -1.0, 2),
    "f of chains as in training": ("generation.short.mean_energy", -1.0, 2),
    "f of chains ten times as long": ("generation.fresh.mean_energy", -1.0, 2),
    "gap, last step": ("log_density_gap", 1.0, 2),
    "mean weight of the data, last step": ("positive_weight", 1.0, 3),
    "effective fraction of negatives, last step": ("effective_sample_fraction", 1.0, 3),
    **pick_columns("seconds of training"),
}

STUDY = Study(
    rows={label: CONFIG + suffix for label, suffix in ROWS.items()},
    columns=COLUMNS,
    num_seeds=3,
    draw=(figures.samples,),
)
