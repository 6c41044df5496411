"""The plots of a joint energy model's run."""

from pathlib import Path

import matplotlib.pyplot as plt

from experiments.plots import curve, finish, legend
from experiments.workdir import read_rows

PANELS = (
    ("loss", ("loss", "cross_entropy")),
    ("accuracy", ("accuracy", "test_accuracy")),
    ("calibration", ("test_ece", "test_brier")),
    (
        "log density, nats",
        ("positive_log_density", "negative_log_density", "test_log_density", "buffer_log_density"),
    ),
    ("energy, nats", ("positive_energy", "negative_energy")),
    ("samples of the buffer: FID", ("sample_fid",)),
    (
        "chains",
        ("chain_acceptance_prob", "chain_displacement", "positive_weight", "smoothing"),
    ),
)


def draw(workdir: Path) -> None:
    """``plots/training.png``: everything the run logged, by panel."""
    rows = read_rows(workdir)
    panels = [(t, names) for t, names in PANELS if any(n in row for row in rows for n in names)]
    figure, axes = plt.subplots(2, -(-len(panels) // 2), figsize=(12, 6), squeeze=False)
    for axis, (title, names) in zip(axes.flat, panels, strict=False):
        for name in names:
            curve(axis, rows, name)
        axis.set(title=title, xlabel="step")
        legend(axis)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    finish(figure, workdir / "plots" / "training.png")
