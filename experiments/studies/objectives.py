"""Objectives with and without chains on points, against the data's density.

A row is a data set and an objective. All train the same network, with smooth activations, for
10,000 steps of the same rate. "contrastive divergence" is the robust objective at beta 0: its
samples are short chains from noise. Total variation and KL are of the learned density, normalised
on a grid; "shares" is the total variation of the masses of modes or circles.

Figure: side_by_side.png, the learned densities of seed 0.

Variants:
- "": all rows, 3 seeds.
- quick: a few steps of two rows; shows nothing.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.named_columns import pick_columns

figures = project("figures.points_objectives")

CONFIG = "configs/toy_beta.py"
DATA = {
    "mixture": (CONFIG, "--config.train.num_epochs=10"),
    "circles": (f"{CONFIG}:circles", "--config.train.num_epochs=20"),
}
WITHOUT_CHAINS = {
    "score matching, sliced": ("--config.loss.name=score_matching",),
    "denoising, noise 0.1": (
        "--config.loss.name=denoising",
        "--config.loss.denoising.noise_scale=0.1",
    ),
    "denoising, levels from 0.1": (
        "--config.loss.name=denoising_levels",
        "--config.loss.denoising_levels.min_noise_scale=0.1",
    ),
    "diffusion recovery": (
        "--config.loss.name=diffusion_recovery",
        "--config.loss.diffusion_recovery.min_noise_scale=0.1",
    ),
    "energy discrepancy": ("--config.loss.name=energy_discrepancy",),
    "noise-contrastive": ("--config.loss.name=noise_contrastive",),
}
OBJECTIVES = {
    "contrastive divergence": ("--config.loss.beta=0",),
    "walkers with weights": (
        "--config.loss.name=jarzynski",
        "--config.loss.jarzynski.num_walkers=1024",
    ),
    "robust, beta 0.9": ("--config.loss.beta=0.9",),
    **WITHOUT_CHAINS,
}
COLUMNS = {
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 3),
    "shares of the density, TV": ("density.density_share_tv", 1.0, 3),
    "normalisable": ("density.is_normalisable", 1.0, 1),
    **pick_columns("seconds of training"),
}
ROWS = {
    f"{data}, {name}": [*start, *flags]
    for data, start in DATA.items()
    for name, flags in OBJECTIVES.items()
}
STUDIES = {
    "": Study(ROWS, COLUMNS, 3, ("--config.model.activation=swish",), figures.side_by_side),
    "quick": Study(
        {
            name: [f"{CONFIG}:smoke", *WITHOUT_CHAINS[name]]
            for name in ("energy discrepancy", "noise-contrastive")
        },
        COLUMNS,
        2,
        draw=figures.side_by_side,
    ),
}
