"""Joint energy model (JEM) on scikit-learn's packaged 8x8 digits.

Claim: a classifier trained as an energy-based model keeps its accuracy and gains calibration.
Paper: JEM (Grathwohl et al. 2020) as the five documents use it.
Command:
  python experiments/run.py --config=configs/jem_digits.py
Hardware: 2 CPU cores.
Expected numbers: not yet run.
"""

from ml_collections import ConfigDict

from experiments.jem_defaults import defaults

VARIANTS = {
    "": {},
    "softmax": {"loss.generative_weight": 0.0},
}


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    config = defaults()
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
