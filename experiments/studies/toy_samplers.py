"""Eight samplers on one learned energy of four Gaussians, 10 chains each, over 5 seeds.

samplers.md has a row for every sampler and a table for every setting of steps; samplers_*.png shows
the same as dots. "independent draws" are the best that chains can reach without crossing.

Variants: variants has nearer modes, weak regularisation and persistent chains in training; printed
has MALA and pSGLD as the thesis prints them, beside the correct ones and SGLD; training compares
samplers of the training (abstract, 4.1.4) by the learned energy, with chains of 100 steps of 0.1.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import pick_columns

figures = project("figures.points_samplers")

COLUMNS = {
    **pick_columns("density, TV", "density, KL in nats"),
    "R-hat of locked chains": ("references.locked.rhat_classic", 1.0, 2),
    "R-hat of MALA, thesis's step": ("thesis.mala.rhat_classic", 1.0, 2),
    "R-hat of MALA, tuned": ("tuned.mala.rhat_classic", 1.0, 2),
    **pick_columns("seconds of training"),
    "seconds of evaluation": ("evaluation_seconds", 1.0, 0),
}

CONFIG = "configs/toy_samplers.py"
PRINTED = (
    "sgld",
    "psgld",
    "literal/psgld.py:literal_psgld",
    "mala",
    "literal/mala.py:literal_mala",
)
TRAINED_BY = {
    "gradient descent": "gradient_descent",
    "SGLD": "sgld",
    "pSGLD": "psgld",
    "MALA": "mala",
}
TRAINING_COLUMNS = {
    **pick_columns("density, TV", "density, KL in nats"),
    "TV after 30 epochs": ("over_training.first_density_tv.density_tv", 1.0, 3),
    **pick_columns("energy of samples - of data, nats", "acceptance, end of training"),
    **pick_columns("distance travelled", "seconds of training"),
}


TRAINING = Study(
    rows={label: [CONFIG, f"--config.sampler.name={name}"] for label, name in TRAINED_BY.items()},
    columns=TRAINING_COLUMNS,
    common=("--config.evals.every_epochs=30", "--config.evals.comparison.samplers=('sgld',)"),
)


study = partial(Study, columns=COLUMNS, draw=(figures.study,))
STUDIES = {
    "": study({"four Gaussians": [CONFIG]}),
    "variants": study({name: [f"{CONFIG}:{name}"] for name in ("near", "weak_l2", "persistent")}),
    "printed": study(
        {"four Gaussians": [CONFIG, f"--config.evals.comparison.samplers={PRINTED}"]},
        columns={
            **COLUMNS,
            "of MALA as printed": ("thesis.literal_mala.rhat_classic", 1.0, 2),
            "of pSGLD": ("thesis.psgld.rhat_classic", 1.0, 2),
            "of pSGLD as printed": ("thesis.literal_psgld.rhat_classic", 1.0, 2),
        },
    ),
    "training": TRAINING,
}
