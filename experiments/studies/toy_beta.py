"""The robust objective in the plane: six betas in every row, against the data's density.

A row is a data set, a setting and an objective, by the variants of configs/toy_beta.py; its betas
train in one program. Total variation lies in [0, 1] and is from the data's density unless another
is named. "chains" is that of a kernel density estimate of 10,000 ends of the run's chains,
"negatives" that of training's chains, "shares" that of the masses of modes or circles. Means leave
out, and count, models that diverged and densities that cannot be normalised on the grid.

Figures: divergences.png; panels_*.png for every data set and setting, the learned densities by
objective and beta, seed 0.

Variants:
- "": all rows; gmm: the mixture's rows, which take a fifth of the time.
- negative: betas below 0.
- quick: a minute or two; shows nothing.
"""

from functools import partial

from ebmjax.recipes.config.files import beside, project
from ebmjax.recipes.models.plane.beta_monitor import name_of
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.figures import draw_each
from ebmjax.recipes.study.named_columns import pick_columns

figures = project("figures.plane_objectives")

toy_beta = beside(__file__, "../configs/toy_beta.py")
OBJECTIVES = ("default", "no_positive", "batch_corrected", "true_objective")
BETAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
NEGATIVE = toy_beta.SETTINGS["negative"]["loss.betas"]


def row(data: str, setting: str, objective: str = "default") -> tuple[str, list[str]]:
    """Its label and its run."""
    label = ", ".join(filter(None, (data, setting, "" if objective == "default" else objective)))
    variant = "_".join(filter(None, ("" if data == "gmm" else data, setting)))
    config = "configs/toy_beta.py" + (f":{variant}" if variant else "")
    return label, [config, f"--config.loss.beta_variant={objective}"]


def columns(betas: tuple[float, ...]) -> dict[str, tuple[str, float, int]]:
    """Columns reported for every beta, and the duration of the run."""
    told = {
        "density, TV": ("density_tv", 3),
        "density, KL in nats": ("density_kl", 2),
        "chains, TV": ("sample_tv", 3),
        "negatives, TV": ("negative_tv", 3),
        "reweighted negatives, TV": ("reweighted_tv", 3),
        "slope of the compensation": ("bias_slope", 2),
        "its correlation": ("bias_correlation", 2),
        "shares of the density, TV": ("density_share_tv", 3),
        "shares of the chains, TV": ("sample_share_tv", 3),
        "long chains from the density, TV": ("long_tv", 3),
        "exact draws from the density, TV": ("exact_tv", 3),
        "normalisable": ("is_normalisable", 1),
        "diverged": ("is_diverged", 1),
    }
    by_beta = {
        f"{heading}, beta {beta:g}": (f"by_beta.{name_of(beta)}.{name}", 1.0, decimals)
        for heading, (name, decimals) in told.items()
        for beta in betas
    }
    return by_beta | pick_columns("seconds of training")


SETTINGS = dict.fromkeys(("", "restricted", "degenerate"), OBJECTIVES)
SETTINGS |= dict.fromkeys(("long", "shifted", "schedule"), ("default",))


def rows(*data: str) -> dict[str, list[str]]:
    """Every setting of the data sets, each with its objectives."""
    return dict(
        row(name, setting, objective)
        for name in data
        for setting, objectives in SETTINGS.items()
        for objective in objectives
    )


study = partial(Study, draw=draw_each(figures.divergences, figures.objectives))
STUDIES = {
    "": study(rows("gmm", "circles"), columns(BETAS)),
    "gmm": study(rows("gmm"), columns(BETAS)),
    "negative": study(
        dict(row(data, "negative") for data in ("gmm", "circles")), columns(NEGATIVE)
    ),
    "quick": study({"gmm": "configs/toy_beta.py:smoke"}, columns((0.0, 0.5)), num_seeds=2),
}
