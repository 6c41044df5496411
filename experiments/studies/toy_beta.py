"""The robust objective on points: a row for each beta, against the data's density.

A row is a data set, a setting, an objective and a beta, by the variants of configs/toy_beta.py.
Total variation lies in [0, 1] and is from the data's density unless another is named. "chains" is
that of a kernel density estimate of 10,000 ends of the run's chains, "negatives" that of training's
chains. Means leave out, and count, runs that diverged and densities that cannot be normalised on
the grid. panels_*.png has the learned densities
of seed 0. "negative" has betas below 0.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import pick_columns

figures = project("figures.points_objectives")

CONFIG = "configs/toy_beta.py"
OBJECTIVES = ("default", "no_positive", "batch_corrected", "true_objective")
SETTINGS: dict[str, Sequence[str]] = dict.fromkeys(("", "restricted", "degenerate"), OBJECTIVES)
SETTINGS |= dict.fromkeys(("long", "shifted", "schedule"), ("default",))
COLUMNS = {
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 2),
    "chains, TV": ("density.sample_tv", 1.0, 3),
    "negatives, TV": ("negative_tv", 1.0, 3),
    "reweighted negatives, TV": ("reweighted_tv", 1.0, 3),
    "slope of the compensation": ("bias_slope", 1.0, 2),
    "its correlation": ("bias_correlation", 1.0, 2),
    **pick_columns("seconds of training"),
}


def rows(settings: Mapping[str, Sequence[str]], *betas: float) -> dict[str, list[str]]:
    """Returns every setting of both data sets, with its objectives, at each beta."""
    return {
        ", ".join(
            filter(None, (data, setting, objective.removeprefix("default"), f"beta={beta}"))
        ): [
            f"{CONFIG}:{'_'.join(filter(None, (data.removeprefix('gmm'), setting)))}".rstrip(":"),
            f"--config.loss.beta_variant={objective}",
            f"--config.loss.beta={beta}",
        ]
        for data in ("gmm", "circles")
        for setting, objectives in settings.items()
        for objective in objectives
        for beta in betas
    }


study = partial(
    Study,
    columns=COLUMNS,
    common=('--config.evals.functions=("literal/beta_bias.py:beta_bias",)',),
    draw=(figures.objectives,),
)
STUDIES = {
    "": study(rows(SETTINGS, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9)),
    "negative": study(rows({"": ("default",)}, -0.9, -0.5, -0.3, -0.1, 0.0)),
}
