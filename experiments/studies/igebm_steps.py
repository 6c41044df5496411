"""Steps of Langevin chains that train an image energy, with noise of its own or the step's.

The sampling-approaches thesis (3.3.1, 4.2, chapter 5) says of energies of images: a step of 1e-5
does not train, because chains hardly move; a step of 10 to 100 is suitable; and the noise must not
follow the step, because sqrt(2 step) destroys the samples of the buffer. Rows are the steps from
1e-5 to 1e3. "Decoupled" has noise 0.01 at every step. "Coupled" has sqrt(2 step), which is
temperature 1. A suitable step depends on the gradients: compare the distances that chains travel.

Figure: steps.png has the numbers at the end against the step. A run that diverged has none.

Variants:
- "": all rows.
- quick: three rows of a few epochs.
"""

from itertools import zip_longest
from pathlib import Path
from typing import Any

from ebmjax.recipes.evaluators.plots import figure
from ebmjax.recipes.study import Study, make_flags, reader
from ebmjax.recipes.study.figures import draw_means
from ebmjax.recipes.study.named_columns import fid_columns, pick_columns
from ebmjax.recipes.study.table import descend

CONFIG = "configs/igebm_digits.py"
STEPS = (1e-5, 1e-3, 1e-1, 1.0, 10.0, 30.0, 100.0, 1000.0)
NOISES = {
    noise: make_flags({"sampler.sgld.noise_scale": scale, "sampler.sgld.temperature": temperature})
    for noise, scale, temperature in (("decoupled", 0.01, None), ("coupled", None, 1.0))
}


def label(noise: str, step: float) -> str:
    """Returns the label of a row."""
    return f"{noise}, step {step:g}"


ROWS = {
    label(noise, step): [CONFIG, f"--config.sampler.sgld.step_size={step}", *flags]
    for noise, flags in NOISES.items()
    for step in STEPS
}
COLUMNS = {
    **fid_columns("buffer", "fresh"),
    **pick_columns("energy of samples - of data, nats"),
    "squared distance travelled, a pixel": ("chain_displacement", 1.0, 6),
    "acceptance, T implied": ("chain_acceptance_prob", 1.0, 2),
    **pick_columns("largest loss", "skipped steps"),
}
PANELS = {
    "FID of the buffer (digits features)": "generation.buffer.fid",
    "energy of samples - of data, nats": "energy_gap",
    "squared distance travelled, a pixel": "chain_displacement",
}


def draw(folder: Path) -> None:
    """Draws ``steps.png``: numbers at the end against the step, a line a noise, seeds as dots."""
    if not any(reader.find_done(folder, row) for row in ROWS):
        return
    options: Any = {"size": (4.6, 3.6), "has_legend": True}
    with figure(folder / "steps.png", 1, len(PANELS), **options) as (axes,):
        for axis, (title, name) in zip(axes, PANELS.items(), strict=True):
            for noise in NOISES:
                runs = [reader.find_done(folder, label(noise, step)) for step in STEPS]
                found = [[descend(run.numbers(), name) for run in seeds] for seeds in runs]
                if any(found):
                    draw_means(axis, STEPS, [*zip_longest(*found)], "dots", label=noise)
            axis.set(xscale="log", xlabel="step", ylabel=title)
            axis.set_yscale("symlog" if name == "energy_gap" else "log")


STUDY = Study(rows=ROWS, columns=COLUMNS, num_seeds=3, draw=draw)
FEW = (label("decoupled", 1e-5), label("decoupled", 1.0), label("coupled", 100.0))
SHORT = ("--config.train.num_epochs=4", "--config.eval.every_epochs=4")
STUDIES = {"": STUDY, "quick": STUDY.shorten(FEW, *SHORT)}
