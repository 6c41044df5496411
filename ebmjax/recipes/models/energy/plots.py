"""Plots of an energy's run."""

from ebmjax.recipes.evaluators.result_tables import FIDS

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
