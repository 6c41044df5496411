"""The damping lambda of preconditioned SGLD: the speed of the first epochs against divergence.

The thesis (4.2.2) finds lambda = 1e-4 the fastest at first, until the loss jumps to 1e8. Its models
have no spectral norm, no penalty on energies and no box; so do the rows "bare" here. "confined" is
the base of configs/igebm_digits.py.
"""

from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import fid_columns, pick_columns

CONFIG = "configs/igebm_digits.py"
DAMPINGS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
OFF = "--config.train.max_abs_loss=1e30"


def row(setting: str, damping: float) -> tuple[str, list[str]]:
    """Its label and its run."""
    variant = "psgld" if setting == "confined" else "bare_psgld"
    config = [f"{CONFIG}:{variant}", f"--config.sampler.psgld.damping={damping}", OFF]
    return f"{setting}, lambda {damping:g}", config


COLUMNS = {
    "FID ({extractor}) after an epoch": ("over_training.first_sample_fid.sample_fid", 1.0, 1),
    "lowest": ("over_training.best_sample_fid.sample_fid", 1.0, 1),
    "at step": ("over_training.best_sample_fid.step", 1.0, 0),
    **fid_columns("buffer", "fresh"),
    "FID along training, draws of the starts": ("over_training.best_sample_fid.start_fid", 1.0, 1),
    **pick_columns("energy of samples - of data, nats", "distance travelled"),
    **pick_columns("skipped steps", "seconds of training"),
}
SGLD = {"bare, SGLD": [f"{CONFIG}:bare", OFF], "confined, SGLD": [CONFIG, OFF]}


STUDY = Study(
    SGLD | dict(row(s, d) for s in ("bare", "confined") for d in DAMPINGS),
    COLUMNS,
    common=("--config.evals.every_epochs=1", "--config.train.checkpoint_every_epochs=40"),
)
