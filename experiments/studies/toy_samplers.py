"""Eight samplers on one learned energy of four Gaussians, 10 chains each, over 5 seeds.

A seed is another draw of the data, another training and other chains. samplers.md has a row for
every sampler and a table for every setting of steps; samplers_*.png shows the same as dots.
table.md says how near the learned densities are to the data's. "independent draws" are the best
that chains can reach: fresh data, draws from the learned density, and such draws in which every
chain keeps to one mode.

"training" compares samplers of the training by the learned energy. The thesis finds that MALA and
preconditioning make training shorter and the energy better (abstract, 4.1.4). All have chains of
100 steps of 0.1; training.png shows the rows over training.

Variants:
- "": all of it.
- variants: nearer modes, weak regularisation and persistent chains in training.
- printed: MALA and pSGLD as the thesis prints them, beside the correct ones and SGLD.
- training: samplers of the training; training_thesis: with the thesis's chains of 5,000 steps of
  0.01 (hours on a CPU).
- quick: a minute; shows nothing.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.figures import Panel, over_training

figures = project("figures.plane_samplers")

COLUMNS = {
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 3),
    "R-hat of locked chains": ("references.locked.rhat_classic", 1.0, 2),
    "R-hat of MALA, thesis's step": ("thesis.mala.rhat_classic", 1.0, 2),
    "R-hat of MALA, tuned": ("tuned.mala.rhat_classic", 1.0, 2),
    "seconds of training": ("run_seconds", 1.0, 0),
    "seconds of evaluation": ("evaluation_seconds", 1.0, 0),
}

PRINTED = "('sgld', 'psgld', 'literal_psgld', 'mala', 'literal_mala')"
TRAINED_BY = {
    "gradient descent": "gradient_descent",
    "SGLD": "sgld",
    "pSGLD": "psgld",
    "MALA": "mala",
}
TRAINING_COLUMNS = {
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 3),
    "TV after 30 epochs": ("over_training.first_density_tv", 1.0, 3),
    "energy of samples - of data, nats": ("energy_gap", 1.0, 2),
    "acceptance, end of training": ("chain_acceptance_prob", 1.0, 3),
    "distance a chain travels": ("chain_distance", 1.0, 1),
    "seconds of training": ("run_seconds", 1.0, 0),
}
PANELS: tuple[Panel, ...] = (
    ("density_tv", "total variation from the data", "linear"),
    ("density_kl", "KL(data || model), nats", "log"),
    ("energy_gap", "energy of samples - of data, nats", "linear"),
)


def training(config: str) -> Study:
    """The sampler of the training, with the chains of ``config``."""
    return Study(
        rows={
            label: [config, f"--config.sampler.name={name}"] for label, name in TRAINED_BY.items()
        },
        columns=TRAINING_COLUMNS,
        common=(
            "--config.eval.every_epochs=30",
            "--config.eval.samplers=('sgld',)",
            "--config.eval.num_frames=0",
        ),
        draw=partial(over_training, PANELS, "training"),
    )


STUDIES = {
    "": Study(
        rows={"four Gaussians": ["configs/toy_samplers.py", "--config.eval.num_frames=0"]},
        columns=COLUMNS,
        draw=figures.study,
    ),
    "variants": Study(
        rows={
            name: [f"configs/toy_samplers.py:{name}", "--config.eval.num_frames=0"]
            for name in ("near", "weak_l2", "persistent")
        },
        columns=COLUMNS,
        draw=figures.study,
    ),
    "printed": Study(
        rows={
            "four Gaussians": [
                "configs/toy_samplers.py",
                "--config.eval.num_frames=0",
                f"--config.eval.samplers={PRINTED}",
            ]
        },
        columns={
            **COLUMNS,
            "of MALA as printed": ("thesis.literal_mala.rhat_classic", 1.0, 2),
            "of pSGLD": ("thesis.psgld.rhat_classic", 1.0, 2),
            "of pSGLD as printed": ("thesis.literal_psgld.rhat_classic", 1.0, 2),
        },
        draw=figures.study,
    ),
    "training": training("configs/toy_samplers.py"),
    "training_thesis": training("configs/toy_samplers.py:thesis"),
    "quick": Study(
        rows={"four Gaussians": "configs/toy_samplers.py:smoke"},
        columns=COLUMNS,
        num_seeds=2,
        draw=figures.study,
    ),
}
