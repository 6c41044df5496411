"""JEM++ on scikit-learn's packaged 8x8 digits.

Claim: PYLD's inner steps and the informative start make JEM stable at a fraction of its gradients.
Paper: JEM++ (Yang & Ji 2021) as SADA-JEM describes it: M outer steps of N = 5 inner ones, drift
0.2 with scores clipped at 1, box [-1, 1], batch normalisation. Here WRN-10-1 and Adam at 1e-3.
Command:
  python experiments/run.py --config=configs/jempp_digits.py
Hardware: 2 CPU cores.
Expected numbers: not yet run.

Variants: m5, m20 (the base has M = 10), sam, proximal (proximal SGLD instead of PYLD), literal
(the published code's extra unclipped outer step and batch statistics everywhere).
"""

from typing import Any

from ml_collections import ConfigDict

from experiments.jem_defaults import configure

BASE = {
    "model.norm": "batch",
    "sampler.name": "pyld",
    "sampler.num_steps": 10,
    "sampler.box": "clamp",
    "sampler.max_score": 1.0,
    "sampler.buffer.law": "informative",
}
VARIANTS: dict[str, dict[str, Any]] = {
    "m5": {"sampler.num_steps": 5},
    "m20": {"sampler.num_steps": 20},
    "sam": {"optimizer.rho": 0.2},
    "proximal": {"sampler.name": "proximal_sgld", "sampler.max_score": None},
    "literal": {"sampler.pyld.outer_step_size": 1.0, "model.norm_policy": "sada_jem"},
}


def get_config(variant: str = "") -> ConfigDict:
    """The configuration of ``variant``."""
    return configure(variant, BASE, VARIANTS)
