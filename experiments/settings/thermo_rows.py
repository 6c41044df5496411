"""Rows of studies of thermodynamic integration, for any data."""

from typing import Any

# The thesis's values of p.
EXPONENTS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)

FIELDS = {
    "batch": "train.batch_size",
    "p": "loss.exponent",
    "N_t": "loss.num_intervals",
    "K": "sampler.posterior.num_steps",
    "eta": "loss.kl_weight",
    "sum": "loss.kl_sum",
    "covariance": "loss.kl_covariance",
    "epochs": "train.num_epochs",
    "schedule": "loss.schedule",
    "warm_start": "sampler.warm_start",
    "sampler": "sampler.posterior.name",
    "chains": "loss.chains_per_observation",
}


def row(config: str, estimator: str, **changes: Any) -> tuple[str, list[str]]:
    """Returns a row's label and run: the configuration, then the fields that differ."""
    arguments = [f"--config.{FIELDS[name]}={value}" for name, value in changes.items()]
    label = " ".join([estimator, *(f"{name}={value}" for name, value in changes.items())])
    return label, [config, *arguments]
