"""Every field of a joint energy model's configuration, with JEM's own choices as its values.

``sampler.name`` brings the section of its sampler, so ``--config.sampler.name=mala`` alone is a
complete change.
"""

from functools import partial
from typing import Any

from ebmjax._ranges import (
    COUNT,
    FLAG,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    UP_TO_ONE,
    WHOLE,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.recipes.config.by_images import LENGTHS, leave_open
from ebmjax.recipes.config.common_fields import (
    FEATURES,
    OF_CHAINS,
    OF_IMAGES,
    OURS,
    SMOKE_SIZES,
    configure_images,
    family,
    pick_fields,
)
from ebmjax.recipes.config.declare import Field, When, field, under, when_is, when_set
from ebmjax.recipes.evaluators import table as evaluators
from ebmjax.recipes.parts.objectives import table as objectives
from ebmjax.recipes.parts.samplers.table import SAMPLERS, declare_adaptation, sections

BATCH_NORM = When(
    "batch normalisation, config.model.norm=batch or your own network's",
    lambda c: c.get("model.norm") == "batch" or c.get("model.factory"),
)
ENERGY = When(
    "an energy model, config.loss.generative_weight above 0",
    lambda c: c.get("loss.generative_weight"),
)
KEPT = when_set("sampler.buffer.num_kept")
STEPS_DOWN = when_is("optimizer.schedule", "steps")
SAMPLES = When(
    "chains and a replay buffer, config.loss.generative_weight above 0 and "
    "config.sampler.buffer.size",
    lambda c: c.get("loss.generative_weight") and c.get("sampler.buffer.size"),
)


def name_samplers(config: Any) -> tuple[str]:
    """Returns the name of the sampler of the negatives."""
    return (config.get("sampler.name"),)


_FIELDS: dict[str, Field] = {
    **family("joint"),
    **OF_IMAGES,
    **FEATURES,
    **OF_CHAINS,
    **pick_fields(
        data={"flip": False, "noise_scale": 0.03},
        optimizer={"learning_rate": 5e-3, "warmup_steps": 0},
    ),
    "data.num_per_class": field(
        None, optional(COUNT), "train on the first images of each class alone, this many; None: all"
    ),
    "data.crop_padding": field(1, WHOLE, "pixels that images are padded by before a random crop"),
    "data.augment_positives": field(True, FLAG, "augment the images of p(x), too"),
    **under(
        {
            **pick_fields(model={"dtype": "float32"}),
            "model.depth": field(10, COUNT, "layers of the wide ResNet, 6 n + 4"),
            "model.widen_factor": field(1, COUNT, "width of the wide ResNet"),
            "model.norm": field("none", one_of("none", "batch", "group"), "normalisation"),
        },
        OURS,
    ),
    "model.norm_policy": field(
        "default",
        one_of("default", "running", "running_chains", "sada_jem"),
        "which batches are normalised by which statistics",
        BATCH_NORM,
    ),
    "sampler.name": field("sgld", one_of_or_function(*SAMPLERS), "sampler of the negatives"),
    **declare_adaptation(SAMPLERS, name_samplers),
    "sampler.buffer.start": field(
        "uniform",
        one_of("uniform", "gaussian", "informative"),
        "where chains start; informative: a Gaussian for each class of the data",
    ),
    "sampler.buffer.num_kept": field(
        None, optional(COUNT), "chains that go back to the buffer; None: all"
    ),
    "sampler.buffer.replacement": field(
        "in_place",
        one_of("in_place", "softmax", "argmax"),
        "how the chains that go back to the buffer are chosen",
        KEPT,
    ),
    **objectives.fields("joint", "objective of p(x)"),
    "loss.generative_weight": field(
        1.0, NOT_NEGATIVE, "weight of -log p(x); 0: a classifier alone"
    ),
    "loss.is_conditional": field(False, FLAG, "chains follow p(x | y) of a class"),
    "loss.smoothing": field(1.0, POSITIVE, "alpha: p(x) is proportional to exp(f / alpha)"),
    "loss.smoothing_ratio": field(
        None,
        optional(POSITIVE),
        "ratio of gradient norms that the smoothing is steered to; None: it stays",
    ),
    "optimizer.name": field("adam", one_of_or_function("adam", "sgd"), "optimiser"),
    "optimizer.momentum": field(0.9, FRACTION, "momentum of SGD", when_is("optimizer.name", "sgd")),
    "optimizer.weight_decay": field(0.0, NOT_NEGATIVE, "coupled weight decay"),
    "optimizer.schedule": field(
        "steps", one_of("steps", "cosine"), "learning rate: down at decay_epochs, or cosine to 0"
    ),
    "optimizer.decay_epochs": field(
        (24.0, 34.0), NOT_NEGATIVE, "epochs at which the learning rate steps down", STEPS_DOWN
    ),
    "optimizer.decay_factor": field(0.3, UP_TO_ONE, "factor of each step down", STEPS_DOWN),
    "optimizer.average_decay": field(
        0.0, FRACTION, "decay of the averaged parameters that are evaluated; 0: the newest"
    ),
    "optimizer.rho": field(None, optional(POSITIVE), "radius of SAM; None: without SAM"),
    "optimizer.adaptive": field(False, FLAG, "SAM is adaptive (ASAM)", when_set("optimizer.rho")),
    "train.positive_batch_size": field(64, COUNT, "images of p(x) in an update"),
    **evaluators.fields("classification"),
    **evaluators.fields("profile", SAMPLES),
    **evaluators.fields("samples", SAMPLES),
    **evaluators.fields("ood"),
    **evaluators.fields("robustness"),
    **evaluators.fields("landscape"),
    **evaluators.fields("nats"),
    **evaluators.fields("generation", ENERGY, without=("smallest_num",)),
    **evaluators.fields("fit", ENERGY),
}
FIELDS = leave_open(
    _FIELDS, *LENGTHS, "train.max_abs_loss", "data.crop_padding", "data.augment_positives"
)
SECTIONS = sections(SAMPLERS, "sampler.name", name_samplers)
SMOKE: dict[str, Any] = {
    **SMOKE_SIZES,
    "model.depth": 10,
    "model.widen_factor": 1,
    "sampler.num_steps": 2,
    "sampler.num_samples": 8,
    "sampler.buffer.replacement": "in_place",
    "sampler.buffer.num_kept": None,
    "train.positive_batch_size": 16,
    "evals.ood.tfds": (),
    "evals.robustness.num_images": 16,
    "evals.robustness.linf": (0, 4, 16, 32),
    "evals.robustness.l2": (0, 64, 128, 256),
    "evals.robustness.num_steps": 2,
    "evals.landscape.num_points": 3,
}
COMMON: dict[str, dict[str, Any]] = {
    "smoke": SMOKE,
    "bfloat16": {"model.dtype": "bfloat16"},
}
configure = partial(configure_images, "joint", COMMON)
