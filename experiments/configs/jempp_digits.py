"""JEM++ on scikit-learn's packaged 8x8 digits.

Claim: PYLD's inner steps and the informative start make JEM stable at a fraction of its gradients.
Paper: JEM++ (Yang & Ji 2021) as SADA-JEM describes it: M outer steps of N = 5 inner ones, drift 0.2
with scores clipped at 1, box [-1, 1], batch normalisation. Here: WRN-10-1, Adam at 5e-3, group
normalisation and a penalty on squared energies, for the reasons in sadajem_digits.py. "literal" has
the published code's extra unclipped outer step and batch statistics everywhere.
Expected numbers (2026-11-22, seeds 0-4): accuracy 98.5 +- 0.2 %, ECE 2.5 +- 0.3 %, NLL 0.067 +-
0.004 nats. The 357 test images add 0.6 to 0.8 points of accuracy. More: docs/results/jem_digits.md.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

BASE = {
    **project("settings.samplers").JOINT,
    "mesh.num_shards": 2,
    "model.norm": "group",
    "sampler.name": "pyld",
    "sampler.box": "clamp",
    "sampler.max_score": 1.0,
    "sampler.buffer.start": "informative",
    "loss.energy_l2": 0.01,
}
VARIANTS = {
    "m5": {"sampler.num_steps": 5},
    "m20": {"sampler.num_steps": 20},
    "literal": {
        "model.norm": "batch",
        "model.norm_policy": "sada_jem",
        "sampler.pyld.outer_step_size": 1.0,
        "loss.energy_l2": 0.0,
    },
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
