"""The damping lambda of preconditioned SGLD: the speed of the first epochs against divergence.

The thesis (4.2.2) finds lambda = 1e-4 the fastest at first, until the loss jumps to 1e8. Its models
have no spectral norm, no penalty on energies and no box; so do the rows "bare" here. "guard" skips
every step whose loss exceeds 10. "confined" is the base of configs/igebm_digits.py.

Variants:
- "": all rows, over training in damping.png.
- matched: lambda times SGLD's step (chapter 5), with SGLD's noise or the preconditioner's.
"""

from functools import partial

from ebmjax.recipes.config.files import beside, project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.named_columns import fid_columns, pick_columns

figures = project("figures.image")

TEMPERATURE = beside(__file__, "../configs/igebm_digits.py").TEMPERATURE
CONFIG = "configs/igebm_digits.py"
DAMPINGS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
OFF, ON = "--config.train.max_abs_loss=1e30", "--config.train.max_abs_loss=10.0"


def row(setting: str, damping: float) -> tuple[str, list[str]]:
    """Its label and its run."""
    variant = "psgld" if setting == "confined" else "bare_psgld"
    guard = ON if setting == "bare, guard" else OFF
    config = [f"{CONFIG}:{variant}", f"--config.sampler.psgld.damping={damping}", guard]
    return f"{setting}, lambda {damping:g}", config


COLUMNS = {
    "FID ({extractor}) after an epoch": ("over_training.first_sample_fid", 1.0, 1),
    "lowest": ("over_training.best_sample_fid", 1.0, 1),
    "at step": ("over_training.best_step", 1.0, 0),
    **fid_columns("buffer", "fresh"),
    "FID along training, draws of the starts": ("over_training.start_fid", 1.0, 1),
    **pick_columns("energy of samples - of data, nats", "distance travelled"),
    **pick_columns("skipped steps", "seconds of training"),
}
SGLD = {
    "bare, SGLD": [f"{CONFIG}:bare", OFF],
    "bare, guard, SGLD": [f"{CONFIG}:bare", ON],
    "confined, SGLD": [CONFIG, OFF],
}


def make_row(noise: str, damping: float) -> tuple[str, list[str]]:
    """Its label and its run, with ``damping`` times SGLD's step, 1."""
    fields = {"damping": damping, "step_size": damping}
    if noise == "preconditioned":
        fields |= {"noise_scale": None, "temperature": TEMPERATURE}
    flags = make_flags({f"sampler.psgld.{name}": value for name, value in fields.items()})
    return f"lambda {damping:g}, {noise} noise", [f"{CONFIG}:bare_psgld", *flags, OFF]


COMMON = ("--config.evals.every_epochs=1", "--config.train.checkpoint_every_epochs=40")

study = partial(Study, draw=figures.damping)
STUDIES = {
    "": study(
        SGLD | dict(row(s, d) for s in ("bare", "bare, guard", "confined") for d in DAMPINGS),
        COLUMNS,
        common=COMMON,
    ),
    "matched": study(
        {"SGLD": SGLD["bare, SGLD"]}
        | dict(make_row(noise, d) for noise in ("plain", "preconditioned") for d in DAMPINGS[:-1]),
        COLUMNS | pick_columns("preconditioner G"),
        common=COMMON,
    ),
}
