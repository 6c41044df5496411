"""JEM++ on CIFAR-10.

Claim: 93.5 % accuracy and FID 37.1 with M = 10; 91.1 / 37.9 with M = 5; 94.1 / 38.0 with M = 20.
Paper: JEM++ (Yang & Ji 2021) as SADA-JEM reports it: PYLD with N = 5 inner steps of 0.2, scores
clipped at 1, box [-1, 1], informative start, batch normalisation, SGD at 0.1. "literal" has the
published code's outer step, and running averages that include samples.
Expected numbers: not yet run.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

joint = project("settings.joint")

BASE = {
    **joint.CIFAR,
    **joint.SGD,
    "model.norm": "batch",
    "sampler.name": "pyld",
    "sampler.box": "clamp",
    "sampler.max_score": 1.0,
    "sampler.buffer.start": "informative",
    "optimizer.weight_decay": 4e-4,
    "optimizer.decay_epochs": (50, 100, 125),
    "train.num_epochs": 150,
}
VARIANTS = {
    "m5": {"sampler.num_steps": 5},
    "m20": {"sampler.num_steps": 20},
    "literal": {"sampler.pyld.outer_step_size": 1.0, "model.norm_policy": "sada_jem"},
    "cpu": joint.CPU,
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
