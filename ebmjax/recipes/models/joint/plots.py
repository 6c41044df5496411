"""Plots of a joint energy model's run."""

from ebmjax.recipes.evaluators.result_tables import FIDS

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
