"""Plots of a joint energy model's run."""

from pathlib import Path

from ebmjax.recipes.core.plots import panels
from ebmjax.recipes.core.workdir import read_rows
from ebmjax.recipes.images import chain_profiles

PANELS = (
    ("loss", ("loss", "cross_entropy")),
    ("accuracy", ("accuracy", "test_accuracy")),
    ("calibration", ("test_ece", "test_brier")),
    (
        "log density, nats",
        ("positive_log_density", "negative_log_density", "test_log_density", "buffer_log_density"),
    ),
    ("energy, nats", ("positive_energy", "negative_energy")),
    ("f of data - f of samples, nats", ("energy_gap", "log_density_gap")),
    ("samples of the buffer: FID", ("sample_fid", "start_fid")),
    ("chains", ("chain_acceptance_prob", "positive_weight", "smoothing")),
    ("squared displacement", ("chain_displacement",)),
)


def draw(workdir: Path) -> None:
    """Draws ``plots/training.png``, everything the run logged; and ``chains.png`` if profiled."""
    panels(workdir / "plots" / "training.png", read_rows(workdir), PANELS)
    chain_profiles.draw(workdir)
