"""The robust objective on points: a row for each beta, against the data's density.

A row is a data set, a setting, an objective and a beta, by the variants of configs/toy_beta.py.
Total variation lies in [0, 1] and is from the data's density unless another is named. "chains" is
that of a kernel density estimate of 10,000 ends of the run's chains, "negatives" that of training's
chains, "shares" that of the masses of modes or circles. Means leave out, and count, runs that
diverged and densities that cannot be normalised on the grid.

Figures: divergences.png; panels_*.png for every data set and setting, the learned densities by
objective and beta, seed 0.

Variants:
- "": all rows; gmm: the mixture's rows, which take a fifth of the time.
- negative: betas below 0.
- quick: a minute or two; shows nothing.
"""

from collections.abc import Sequence
from functools import partial

from ebmjax.recipes.config.files import beside, project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.figures import draw_each
from ebmjax.recipes.study.named_columns import pick_columns

figures = project("figures.points_objectives")

toy_beta = beside(__file__, "../configs/toy_beta.py")
OBJECTIVES = ("default", "no_positive", "batch_corrected", "true_objective")
BETAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
NEGATIVE = (-0.9, -0.5, -0.3, -0.1, 0.0)
CONFIG = "configs/toy_beta.py"


def row(data: str, setting: str, objective: str, beta: float) -> tuple[str, list[str]]:
    """Its label and its run."""
    words = (data, setting, "" if objective == "default" else objective, f"beta {beta:g}")
    variant = "_".join(filter(None, ("" if data == "gmm" else data, setting)))
    config = CONFIG + (f":{variant}" if variant else "")
    flags = [f"--config.loss.beta_variant={objective}", f"--config.loss.beta={beta:g}"]
    return ", ".join(filter(None, words)), [config, *flags]


COLUMNS = {
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 2),
    "chains, TV": ("density.sample_tv", 1.0, 3),
    "negatives, TV": ("negative_tv", 1.0, 3),
    "reweighted negatives, TV": ("reweighted_tv", 1.0, 3),
    "slope of the compensation": ("bias_slope", 1.0, 2),
    "its correlation": ("bias_correlation", 1.0, 2),
    "shares of the density, TV": ("density.density_share_tv", 1.0, 3),
    "shares of the chains, TV": ("density.sample_share_tv", 1.0, 3),
    "long chains from the density, TV": ("long_tv", 1.0, 3),
    "exact draws from the density, TV": ("exact_tv", 1.0, 3),
    "normalisable": ("density.is_normalisable", 1.0, 1),
    **pick_columns("seconds of training"),
}
SETTINGS: dict[str, tuple[str, ...]] = dict.fromkeys(("", "restricted", "degenerate"), OBJECTIVES)
SETTINGS |= dict.fromkeys(("long", "shifted", "schedule"), ("default",))


def rows(
    data: Sequence[str], settings: dict[str, tuple[str, ...]], betas: Sequence[float]
) -> dict[str, list[str]]:
    """Every setting of the data sets, each with its objectives and betas."""
    return dict(
        row(name, setting, objective, beta)
        for name in data
        for setting, objectives in settings.items()
        for objective in objectives
        for beta in betas
    )


study = partial(
    Study,
    columns=COLUMNS,
    common=('--config.eval.functions=("literal/beta_bias.py:beta_bias",)',),
    draw=draw_each(figures.divergences, figures.objectives),
)
BOTH = ("gmm", "circles")
STUDIES = {
    "": study(rows(BOTH, SETTINGS, BETAS)),
    "gmm": study(rows(("gmm",), SETTINGS, BETAS)),
    "negative": study(rows(BOTH, {"negative": ("default",)}, NEGATIVE)),
    "quick": study(
        {
            f"gmm, beta {beta:g}": [f"{CONFIG}:smoke", f"--config.loss.beta={beta:g}"]
            for beta in (0.0, 0.5)
        },
        num_seeds=2,
    ),
}
