"""Steps of Langevin chains that train an image energy, with noise of its own or the step's.

The sampling-approaches thesis (3.3.1, 4.2, chapter 5) says of energies of images: a step of 1e-5
does not train; a step of 10 to 100 is suitable; and noise of sqrt(2 step) destroys the samples.
"Decoupled" has noise 0.01 at every step. "Coupled" has sqrt(2 step), which is temperature 1.
"""

from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.columns import fid_columns, pick_columns

CONFIG = "configs/igebm_digits.py"
NOISES = {"decoupled": (0.01, None), "coupled": (None, 1.0)}
COLUMNS = {
    **fid_columns("buffer", "fresh"),
    **pick_columns("energy of samples - of data, nats"),
    "squared distance travelled, a pixel": ("chain_displacement", 1.0, 6),
    "acceptance, T implied": ("chain_acceptance_prob", 1.0, 2),
    **pick_columns("largest loss", "skipped steps"),
}

STUDY = Study(
    rows={
        noise: [
            CONFIG,
            *make_flags({"sampler.sgld.noise_scale": scale, "sampler.sgld.temperature": heat}),
        ]
        for noise, (scale, heat) in NOISES.items()
    },
    columns=COLUMNS,
    num_seeds=3,
    sweep={"sampler.sgld.step_size": (1e-5, 1e-3, 1e-1, 1.0, 10.0, 30.0, 100.0, 1000.0)},
)
