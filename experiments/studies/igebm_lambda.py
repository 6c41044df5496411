"""The damping lambda of preconditioned SGLD: the speed of the first epochs against divergence.

The thesis (4.2.2) finds lambda = 1e-4 the fastest at first (in JEM, 0.36 against 0.26 accuracy
after an epoch), until the loss jumps to 1e8. At 1 the preconditioner has no effect. Its models have
no spectral norm, no penalty on energies and no box; so do the rows "bare" here. "guard" skips every
step whose loss exceeds 10, chains included. "confined" is the base of configs/igebm_digits.py, with
all three.

Chapter 5 asks whether a smaller step would compensate for the preconditioner, and finds it not
better than SGLD. "matched" has lambda times SGLD's step, so that step times G is SGLD's step where
scores are small. It has SGLD's noise ("plain") or the preconditioner's noise at SGLD's temperature.

Figure: damping.png shows all rows over training.

Variants:
- "": all rows; matched.
- quick: two rows of a few epochs.
"""

from ebmjax.recipes.config.files import beside, project
from ebmjax.recipes.parts.samplers.table import NOISY
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.fid_columns import fid_columns

figures = project("figures.image")

TEMPERATURE = beside(__file__, "../configs/igebm_digits.py").TEMPERATURE
CONFIG = "configs/igebm_digits.py"
DAMPINGS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
OFF, ON = "--config.train.max_abs_loss=1e30", "--config.train.max_abs_loss=10.0"


def row(setting: str, damping: float) -> tuple[str, list[str]]:
    """Its label and its run."""
    variant = "psgld" if setting == "confined" else "bare_psgld"
    guard = ON if setting == "bare, guard" else OFF
    arguments = [f"{CONFIG}:{variant}", f"--config.sampler.psgld.damping={damping}", guard]
    return f"{setting}, lambda {damping:g}", arguments


COLUMNS = {
    "FID ({extractor}) after an epoch": ("over_training.first_sample_fid", 1.0, 1),
    "lowest": ("over_training.best_sample_fid", 1.0, 1),
    "at step": ("over_training.best_step", 1.0, 0),
    **fid_columns("buffer", "fresh"),
    "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
    "FID along training, draws of the starts": ("over_training.start_fid", 1.0, 1),
    "energy of samples - of data, nats": ("energy_gap", 1.0, 2),
    "distance travelled": ("chain_displacement", 1.0, 4),
    "skipped steps": ("skipped", 1.0, 0),
    "seconds of training": ("run_seconds", 1.0, 0),
}
SGLD = {
    "bare, SGLD": [f"{CONFIG}:bare", OFF],
    "bare, guard, SGLD": [f"{CONFIG}:bare", ON],
    "confined, SGLD": [CONFIG, OFF],
}


def matched(noise: str, damping: float) -> tuple[str, list[str]]:
    """Its label and its run, with ``damping`` times SGLD's step."""
    psgld = "--config.sampler.psgld"
    arguments = [
        f"{CONFIG}:bare_psgld",
        f"{psgld}.damping={damping}",
        f"{psgld}.step_size={damping * NOISY['step_size']}",
        OFF,
    ]
    if noise == "preconditioned":
        arguments += [f"{psgld}.noise_scale=None", f"{psgld}.temperature={TEMPERATURE}"]
    return f"lambda {damping:g}, {noise} noise", arguments


COMMON = ("--config.eval.every_epochs=1", "--config.train.checkpoint_every_epochs=40")

STUDIES = {
    "": Study(
        rows=SGLD
        | dict(
            row(s, damping) for s in ("bare", "bare, guard", "confined") for damping in DAMPINGS
        ),
        columns=COLUMNS,
        common=COMMON,
        draw=figures.damping,
    ),
    "matched": Study(
        rows={"SGLD": SGLD["bare, SGLD"]}
        | dict(
            matched(noise, damping)
            for noise in ("plain", "preconditioned")
            for damping in DAMPINGS[:-1]
        ),
        columns=COLUMNS | {"preconditioner G, end": ("chain_preconditioner", 1.0, 2)},
        common=COMMON,
        draw=figures.damping,
    ),
    "quick": Study(
        rows=dict(row("bare, guard", damping) for damping in (1e-4, 1.0)),
        columns=COLUMNS,
        num_seeds=1,
        common=("--config.train.num_epochs=4", "--config.eval.every_epochs=1"),
        draw=figures.damping,
    ),
}
