"""Panels of ``plots/training.png``, by family: label, numbers of metrics.jsonl, scale."""

from ebmjax.recipes.evaluators.result_tables import FIDS

PANELS = {
    "energy": (
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
    ),
    "joint": (
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
    ),
}
