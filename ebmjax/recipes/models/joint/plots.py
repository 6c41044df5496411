"""Plots of a joint energy model's run."""

from pathlib import Path

from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.plots import panels
from ebmjax.recipes.evaluators.result_tables import FIDS
from ebmjax.recipes.folder.workdir import read_rows

PANELS = (
    ("loss", ("loss", "cross_entropy"), "linear"),
    ("accuracy", ("accuracy", "test_accuracy"), "linear"),
    ("calibration", ("test_ece", "test_brier"), "linear"),
    ("f in training, nats", ("positive_log_density", "negative_log_density"), "linear"),
    ("log density, nats", ("test_log_density", "buffer_log_density"), "linear"),
    ("-f in training, nats", ("positive_energy", "negative_energy"), "linear"),
    ("f of data - f of samples, nats", ("energy_gap", "log_density_gap"), "linear"),
    ("FID of the buffer ({extractor})", FIDS, "linear"),
    ("chains", ("chain_acceptance_prob", "positive_weight", "smoothing"), "linear"),
    ("squared displacement of a chain, a pixel", ("chain_displacement",), "linear"),
)


def draw(workdir: Path, config: Config) -> None:
    """Draws ``plots/training.png``, everything the run logged; and ``chains.png`` if profiled."""
    # Imported late: a report takes PANELS without JAX.
    from ebmjax.recipes.evaluators import profile as chain_profiles

    panels(workdir / "plots" / "training.png", read_rows(workdir), PANELS, config)
    chain_profiles.draw(workdir)
