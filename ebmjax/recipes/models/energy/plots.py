"""Plots of an energy's run."""

from pathlib import Path

from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.evaluators.plots import panels
from ebmjax.recipes.evaluators.result_tables import FIDS
from ebmjax.recipes.folder.workdir import read_rows

PANELS = (
    ("loss", ("loss", "kl_terms"), "linear"),
    ("network's energy in training, nats", ("positive_energy", "negative_energy"), "linear"),
    ("energy, nats", ("test_energy", "sample_energy"), "linear"),
    ("acceptance in training", ("chain_acceptance_prob",), "linear"),
    ("FID of samples ({extractor})", FIDS, "linear"),
    ("total variation from the data", ("density_tv", "sample_tv"), "linear"),
    ("KL(data || model), nats", ("density_kl",), "log"),
    ("chains", ("chain_displacement", "chain_step_size"), "log"),
    (
        "robust objective",
        ("positive_weight", "effective_sample_fraction", "effective_positive_fraction"),
        "linear",
    ),
)


def draw(workdir: Path, config: Config) -> None:
    """Draws ``plots/training.png``, everything the run logged; and ``chains.png`` if profiled.

    Points also get ``density.png``, see ``density.over_training``.
    """
    # Imported late: a report takes PANELS without JAX.
    from ebmjax.recipes.evaluators import density
    from ebmjax.recipes.evaluators import profile as chain_profiles

    panels(workdir / "plots" / "training.png", read_rows(workdir), PANELS, config)
    chain_profiles.draw(workdir)
    if is_points(config):
        density.over_training(workdir, config.eval.density.half_width)
