"""Every field of a joint energy model's configuration, with JEM's own choices as its values.

``sampler.name`` brings the section of its sampler, so ``--config.sampler.name=mala`` alone is a
complete change.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from ebmjax.recipes.config.by_images import LENGTHS, leave_open
from ebmjax.recipes.config.common_fields import (
    BUFFER,
    OF_IMAGES,
    OURS,
    OWN_EVALUATIONS,
    configure_images,
    family,
    own_options,
    pick_fields,
)
from ebmjax.recipes.config.declare import Field, allow_preset, field, under, when_is
from ebmjax.recipes.config.ranges import (
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
from ebmjax.recipes.evaluators import table as evaluators
from ebmjax.recipes.models.joint.conditions import (
    AUGMENTED,
    BATCH_NORM,
    ENERGY,
    MOVED,
    PARTS_KEPT,
    SAM,
    SCALED,
    SGD,
    STEERED,
    STEPS_DOWN,
    in_box,
    needing_energy,
)
from ebmjax.recipes.parts.objectives import table as objectives
from ebmjax.recipes.parts.samplers.sections import declare_decoupling, sections
from ebmjax.recipes.parts.samplers.table import SAMPLERS

# Samplers that reject follow the temperature 5e-4, at a step that they accept.
CHANGES = {
    f"{name}.{key}": value
    for name in ("mala", "tempered_mala")
    for key, value in {"step_size": 0.1, "noise_scale": None, "temperature": 5e-4}.items()
}
CHANGES |= {"hmc.temperature": 5e-4, "hmc.num_integration_steps": 5, "blackjax.temperature": 5e-4}
CHANGES |= {"proximal_sgld.noise_scale": 0.0}
ADAPTABLE = [name for name, entry in SAMPLERS.items() if entry.adaptable]


# Fields of the energy wait while the classifier is trained alone, as for the variants "softmax".
_OF_ENERGY: dict[str, Field] = {
    **in_box(
        pick_fields(
            sampler={
                "num_steps": 10,
                "num_samples": 64,
                "box": "none",
                "low": -1.0,
                "high": 1.0,
                "max_score": None,
                "buffer.size": 10_000,
                "buffer.reinit_prob": 0.05,
            },
            loss={"energy_l2": 0.0, "max_gap": None},
            eval={
                "num_chain_steps": None,
                "extractor": "",
                "inception_weights": "",
                "inception_sha256": "",
            },
        ),
        "sampler.low",
        "sampler.high",
    ),
    "sampler.name": field("sgld", one_of_or_function(*SAMPLERS), "sampler of the negatives"),
    **own_options("sampler", "a sampler"),
    **own_options("loss", "a loss"),
    "sampler.dtype": field(
        "float32", one_of("float32", "bfloat16"), "type that chains compute in", OURS
    ),
    **declare_decoupling(SAMPLERS, "sampler.name"),
    "sampler.target_acceptance": field(
        None,
        optional(POSITIVE),
        "acceptance that the step adapts to; None: fixed",
        when_is("sampler.name", *ADAPTABLE, what="a sampler whose step can adapt"),
    ),
    "sampler.buffer.start": field(
        "uniform",
        one_of("uniform", "gaussian", "informative"),
        "where chains start; informative: a Gaussian for each class of the data",
    ),
    **under(pick_fields(sampler={"buffer.start_scale": 1.0}), SCALED),
    "sampler.buffer.replacement": field(
        "in_place",
        one_of("in_place", "softmax", "argmax"),
        "how the chains that go back to the buffer are chosen",
        PARTS_KEPT,
    ),
    "sampler.buffer.num_kept": field(
        None, optional(COUNT), "chains that go back to the buffer; None: all", BUFFER
    ),
    **objectives.fields("joint", "objective of p(x)"),
    "loss.is_conditional": field(False, FLAG, "chains follow p(x | y) of a class", ENERGY),
    "loss.smoothing": field(1.0, POSITIVE, "alpha: p(x) is proportional to exp(f / alpha)"),
    "loss.smoothing_ratio": field(
        None,
        optional(POSITIVE),
        "ratio of gradient norms that the smoothing is steered to; None: it stays",
    ),
    "loss.smoothing_rate": field(0.1, UP_TO_ONE, "how fast the smoothing is steered", STEERED),
    "train.positive_batch_size": field(64, COUNT, "images of p(x) in an update"),
    **evaluators.fields("generation"),
    **evaluators.fields("fit"),
    "eval.generation.selected_by_confidence": replace(
        evaluators.SELECTED, when=(BUFFER, evaluators.when_evaluated("generation"))
    ),
}

_OF_ENERGY["sampler.buffer.reinit_prob"] = replace(
    _OF_ENERGY["sampler.buffer.reinit_prob"], when=(allow_preset(BUFFER),)
)
NEGATIVES = ("sampler.num_samples", "sampler.buffer.size", "loss.energy_l2", "loss.max_gap")
NEGATIVES += ("loss.is_conditional",)
_OF_ENERGY |= under({name: _OF_ENERGY[name] for name in NEGATIVES}, objectives.DRAWING)

_FIELDS: dict[str, Field] = {
    **family("joint"),
    **OF_IMAGES,
    **pick_fields(
        data={"flip": False, "noise_scale": 0.03},
        optimizer={"learning_rate": 5e-3, "warmup_steps": 0},
        train={
            "num_epochs": 40,
            "max_steps": None,
            "batch_size": 64,
            "steps_per_dispatch": 22,
            "log_every": 11,
            "checkpoint_every_epochs": 10,
            "max_abs_loss": 1e5,
        },
        mesh={"num_shards": 1, "whole_batch": True},
        eval={
            "every_epochs": 10.0,
            "batch_size": 128,
            "checkpoint": "newest",
            "use_test_split": False,
        },
    ),
    **evaluators.fields("classification"),
    **evaluators.fields("profile", BUFFER, ENERGY),
    **evaluators.fields("samples", allow_preset(BUFFER), allow_preset(ENERGY)),
    **evaluators.fields("ood"),
    **evaluators.fields("robustness"),
    **evaluators.fields("landscape"),
    **evaluators.fields("nats"),
    "data.num_per_class": field(
        None, optional(COUNT), "train on the first images of each class alone, this many; None: all"
    ),
    "data.crop_padding": field(1, WHOLE, "pixels that images are padded by before a random crop"),
    "data.augment_positives": field(
        True, FLAG, "augment the images of p(x), too", allow_preset(ENERGY)
    ),
    "data.positive_crop_padding": field(
        None, optional(WHOLE), "crop_padding for p(x); None: the same", AUGMENTED, ENERGY
    ),
    "data.positive_flip": field(
        None, optional(FLAG), "flip for p(x); None: the same", AUGMENTED, ENERGY
    ),
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
    **needing_energy(_OF_ENERGY),
    "loss.generative_weight": field(
        1.0, NOT_NEGATIVE, "weight of -log p(x); 0: a classifier alone"
    ),
    "optimizer.name": field("adam", one_of_or_function("adam", "sgd"), "optimiser"),
    **own_options("optimizer", "an optimiser"),
    **OWN_EVALUATIONS,
    "optimizer.momentum": field(0.9, FRACTION, "momentum of SGD", SGD),
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
    "optimizer.adaptive": field(False, FLAG, "SAM is adaptive (ASAM)", SAM),
}
FIELDS = leave_open(
    _FIELDS, *LENGTHS, "train.max_abs_loss", "data.crop_padding", "data.augment_positives"
)
SECTIONS = under(
    sections(SAMPLERS, "sampler.name", changes=CHANGES, on_images=True), MOVED
) | under(objectives.sections("joint"), ENERGY)
SMOKE: dict[str, Any] = {
    "mesh.num_shards": 1,
    "data.max_train": 64,
    "data.max_test": 32,
    "data.max_holdout": 32,
    "model.depth": 10,
    "model.widen_factor": 1,
    "sampler.num_steps": 2,
    "sampler.num_samples": 8,
    "sampler.buffer.size": 200,
    "sampler.buffer.replacement": "in_place",
    "sampler.buffer.num_kept": None,
    "train.num_epochs": 2,
    "train.batch_size": 16,
    "train.positive_batch_size": 16,
    "train.steps_per_dispatch": 2,
    "train.log_every": 1,
    "train.checkpoint_every_epochs": 1,
    "eval.every_epochs": 1,
    "eval.samples.num_images": 20,
    "eval.ood.tfds": (),
    "eval.robustness.num_images": 16,
    "eval.robustness.linf": (0, 4, 16, 32),
    "eval.robustness.l2": (0, 64, 128, 256),
    "eval.robustness.num_steps": 2,
    "eval.robustness.auto_steps": 2,
    "eval.robustness.num_queries": 5,
    "eval.generation.num_images": 20,
    "eval.fit.num_samples": 20,
    "eval.landscape.num_points": 3,
}
COMMON: dict[str, dict[str, Any]] = {
    "smoke": SMOKE,
    "bfloat16": {"model.dtype": "bfloat16", "sampler.dtype": "bfloat16"},
}
configure = partial(configure_images, "joint", COMMON)
