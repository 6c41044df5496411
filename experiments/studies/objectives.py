"""Objectives for points, on four densities of the plane, against the data's density.

A row is a data set and an objective: eight neighbouring modes, four circles, two modes of masses
0.2 and 0.8 five apart, and four modes of masses 0.1 to 0.4. All train the same network for 4,000
steps of the same rate. KL and total variation are of the learned density, normalised on a grid;
"shares" is the total variation of the masses of modes or circles. side_by_side.png has the
learned densities of seed 0.
"""

from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.table import pick_columns

figures = project("figures.points_objectives")

CONFIG = "configs/toy_beta.py"
STEPS, NUM_TRAIN = 4000, 50_000


def gaussians(radius: float, scale: float, *weights: float) -> dict[str, Any]:
    """Returns the fields of Gaussians that far from the origin; chains start as far out."""
    return {
        "data.name": "gaussians",
        "data.radius": radius,
        "data.scale": scale,
        "data.weights": weights,
        "sampler.buffer.start_scale": radius,
        "evals.density.bandwidth": 0.1,
        "train.batch_size": 50,
    }


DATA: dict[str, tuple[str, float, dict[str, Any]]] = {
    "eight modes": (CONFIG, 2.0, {"train.batch_size": 50}),
    "circles": (f"{CONFIG}:circles", 5.0, {"train.batch_size": 100}),
    "two far modes": (CONFIG, 5.0, gaussians(2.5, 0.5, 0.2, 0.8)),
    "four far modes": (CONFIG, 6.0, gaussians(4.0, 0.3, 0.1, 0.2, 0.3, 0.4)),
}
"""Configuration, half the width of the grid and further fields, by data set."""
PATHS = {"warmup": 0.2, "temperature": 0.3, "contrastive_weight": 10.0}
OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "short chains": ("contrastive_divergence", {}),
    "persistent chains": ("contrastive_divergence", {}),
    "robust, beta 0.9": ("beta", {}),
    "score matching, sliced": ("score_matching", {}),
    "denoising, noise 0.1": ("denoising", {"noise_scale": 0.1}),
    "energy discrepancy": ("energy_discrepancy", {}),
    "noise-contrastive": ("noise_contrastive", {}),
    "energy matching": ("energy_matching", PATHS),
}
"""``loss.name`` and fields of its section, by objective."""


def row(data: str, objective: str) -> list[str]:
    """Returns the configuration and the arguments of a run."""
    config, half_width, fields = DATA[data]
    name, section = OBJECTIVES[objective]
    num_epochs = STEPS * fields["train.batch_size"] // NUM_TRAIN
    fields = {
        **fields,
        "loss.name": name,
        **{f"loss.{name}.{field}": value for field, value in section.items()},
        "train.num_epochs": num_epochs,
        "evals.every_epochs": num_epochs,
        "evals.density.half_width": half_width,
    }
    if name == "beta":
        fields["loss.beta"] = 0.9
    if name == "contrastive_divergence":
        # The energy of a network need not be normalisable elsewhere.
        fields |= {"sampler.box": "reflect", "sampler.low": -half_width, "sampler.high": half_width}
        fields |= {"sampler.sgld.step_size": 0.01, "sampler.sgld.temperature": 1.0}
        fields["loss.energy_l2"] = 0.05  # without it short chains diverge
    if objective == "persistent chains":
        fields["sampler.buffer.size"] = 10_000
    return [config, *make_flags(fields)]


COLUMNS = {
    **pick_columns("density, KL in nats", "density, TV"),
    **pick_columns("seconds of training"),
}
COMMON = (
    "--config.model.activation=swish",
    "--config.evals.density.num_samples=1000",
)
STUDY = Study(
    {f"{data}, {objective}": row(data, objective) for data in DATA for objective in OBJECTIVES},
    COLUMNS,
    5,
    COMMON,
    (figures.side_by_side,),
)
