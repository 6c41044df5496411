"""SVGD as the sampler of a joint energy model, on CIFAR-10.

Claim: the thesis reports 52.01 % accuracy (ECE 2.36 %) for SVGD and 60.24 % (3.21 %) with SAM,
against 92.17 % (1.98 %) and 93.48 % (3.99 %) for SGLD, and a loss that runs to minus infinity. That
is its "literal" loss; the base has the corrected one, in the robust objective with beta 0.1.
Paper: SVGD-in-JEM thesis, chapters 3 to 5: 30 particles, 10 steps, smoothing 50, batches of 10, 100
epochs, and SADA-JEM's optimiser (100 epochs reach one of its three decays). The base departs from
it: no smoothing, batches of 64, and steps of sqrt(30), for the reason in svgdjem_digits.py. It has
group normalisation, because a batch's statistics would couple particles beyond their kernel.
The thesis does not give the number of particles that go back to the buffer (10 here) and the bound
of the scores (1 here). "literal" has one system of 30 particles; its four GPUs may have had one
each.
Expected numbers: not yet run, except "cpu": docs/results/jem_cifar10.md.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.models.energy.fields import configure_joint

joint = project("settings.joint")

BASE = {
    **joint.CIFAR,
    **joint.SGD,
    "data.augment_positives": False,
    "data.noise_scale": 0.0,
    "model.norm": "group",
    "sampler.name": "svgd",
    "sampler.num_samples": 30,
    "mesh.num_shards": 2,  # divides 30 particles; 8 devices need 32
    "sampler.box": "clamp",
    "sampler.max_score": 1.0,
    "sampler.svgd.step_size": 5.5,
    "sampler.buffer.start": "informative",
    "sampler.buffer.replacement": "softmax",
    "sampler.buffer.num_kept": 10,
    "loss.name": "beta",
    "loss.beta": 0.1,
    "train.num_epochs": 100,
}
SAM = {"optimizer.rho": 0.2}
CORRECTED = {"loss.name": "svgd", "loss.beta": 0.0}
LITERAL_LOSS = CORRECTED | {"loss.svgd_variant": "literal", "loss.smoothing": 50.0}
LITERAL = LITERAL_LOSS | {
    "sampler.svgd.step_size": 0.09,
    "train.batch_size": 10,
    "train.positive_batch_size": 10,
}
SGLD = {
    "sampler.name": "proximal_sgld",
    "sampler.num_samples": 64,
    "sampler.max_score": None,
    "sampler.buffer.replacement": "in_place",
    "sampler.buffer.num_kept": None,
    "loss.name": "contrastive_divergence",
    "loss.beta": 0.0,
}
SMALL = joint.CPU | {"loss.energy_l2": 0.0, "sampler.num_samples": 30}
VARIANTS = {
    "sam": SAM,
    "literal": LITERAL,
    "literal_sam": LITERAL | SAM,
    "corrected": CORRECTED,
    "sgld": SGLD,
    "sgld_sam": SGLD | SAM,
    "cpu": SMALL,
    "cpu_literal": SMALL | LITERAL_LOSS,
    "cpu_corrected": SMALL | CORRECTED,
    "cpu_sgld": SMALL | SGLD | {"sampler.num_samples": 30},
}
get_config = partial(configure_joint, base=BASE, variants=VARIANTS)
