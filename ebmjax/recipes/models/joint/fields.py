"""Every field of a joint energy model's configuration, with JEM's own choices as its values.

``sampler.name`` brings the section of its sampler, so ``--config.sampler.name=mala`` alone is a
complete change.
"""

from collections.abc import Mapping
from dataclasses import replace
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
    BUFFER,
    FEATURES,
    OF_CHAINS,
    OF_IMAGES,
    OURS,
    OWN_EVALUATIONS,
    SMOKE_SIZES,
    configure_images,
    family,
    own_options,
    pick_fields,
)
from ebmjax.recipes.config.declare import (
    Field,
    When,
    allow_preset,
    field,
    under,
    when_above_zero,
    when_is,
    when_set,
)
from ebmjax.recipes.evaluators import table as evaluators
from ebmjax.recipes.parts.objectives import table as objectives
from ebmjax.recipes.parts.samplers.sections import declare_decoupling, sections
from ebmjax.recipes.parts.samplers.table import SAMPLERS

ENERGY = when_above_zero("loss.generative_weight", "an energy model")
AUGMENTED = when_set("data.augment_positives", "augmented images for p(x)")
BATCH_NORM = When(
    "batch normalisation, config.model.norm=batch or your own network's",
    lambda c: c.model.norm == "batch" or c.model.factory,
)
IN_BOX = allow_preset(when_is("sampler.box", "clamp", "reflect", "reject", what="a box"))
SCALED = when_is("sampler.buffer.start", "uniform", "gaussian")
PARTS_KEPT = when_set("sampler.buffer.num_kept", "a number of chains that are kept")
STEERED = when_set("loss.smoothing_ratio", "a ratio that the smoothing is steered to")
SGD = when_is("optimizer.name", "sgd")
STEPS_DOWN = allow_preset(when_is("optimizer.schedule", "steps"))
SAM = when_set("optimizer.rho", "SAM's radius")
MOVED = allow_preset(
    When(
        "chains, config.loss.generative_weight above 0 or config.eval.robustness.refine_steps",
        lambda c: (
            c.loss.generative_weight > 0
            or (c.eval.robustness.every != "never" and c.eval.robustness.refine_steps)
        ),
    )
)

# Samplers that reject follow the temperature 5e-4, at a step that they accept.
CHANGES = {
    f"{name}.{key}": value
    for name in ("mala", "tempered_mala")
    for key, value in {"step_size": 0.1, "noise_scale": None, "temperature": 5e-4}.items()
}
CHANGES |= {"hmc.temperature": 5e-4, "hmc.num_integration_steps": 5}
CHANGES |= {"proximal_sgld.noise_scale": 0.0}
ADAPTABLE = [name for name, entry in SAMPLERS.items() if entry.adaptable]


# Fields of the energy wait while the classifier is trained alone, as for the variants "softmax".
_OF_ENERGY: dict[str, Field] = {
    **FEATURES,
    **OF_CHAINS,
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
    **evaluators.fields("generation", without=("smallest_num",)),
    **evaluators.fields("fit"),
}

_CONDITIONS = {
    "sampler.low": IN_BOX,
    "sampler.high": IN_BOX,
    "sampler.buffer.start_scale": SCALED,
    "sampler.buffer.reinit_prob": allow_preset(BUFFER),
}
_OF_ENERGY |= {name: replace(_OF_ENERGY[name], when=(one,)) for name, one in _CONDITIONS.items()}
NEGATIVES = ("sampler.num_samples", "sampler.buffer.size", "loss.energy_l2", "loss.max_gap")
NEGATIVES += ("loss.is_conditional",)
_OF_ENERGY |= under({name: _OF_ENERGY[name] for name in NEGATIVES}, objectives.DRAWING)


def _needing_energy(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Returns ``fields`` with one more condition, as strict as those that they have.

    A sampler's fields also serve a classifier alone whose attacked images are refined.
    """
    made: dict[str, Field] = {}
    for name, one in fields.items():
        if name.startswith("sampler.") and not name.startswith(("sampler.num_", "sampler.buffer.")):
            made |= under({name: one}, MOVED)
            continue
        is_strict = one.when and not any(when.may_preset for when in one.when)
        made |= under({name: one}, ENERGY if is_strict else allow_preset(ENERGY))
    return made


_FIELDS: dict[str, Field] = {
    **family("joint"),
    **OF_IMAGES,
    **pick_fields(
        data={"flip": False, "noise_scale": 0.03},
        optimizer={"learning_rate": 5e-3, "warmup_steps": 0},
        mesh={"whole_batch": True},
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
    **_needing_energy(_OF_ENERGY),
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
    **SMOKE_SIZES,
    "model.depth": 10,
    "model.widen_factor": 1,
    "sampler.num_steps": 2,
    "sampler.num_samples": 8,
    "sampler.buffer.replacement": "in_place",
    "sampler.buffer.num_kept": None,
    "train.positive_batch_size": 16,
    "eval.ood.tfds": (),
    "eval.robustness.num_images": 16,
    "eval.robustness.linf": (0, 4, 16, 32),
    "eval.robustness.l2": (0, 64, 128, 256),
    "eval.robustness.num_steps": 2,
    "eval.landscape.num_points": 3,
}
COMMON: dict[str, dict[str, Any]] = {
    "smoke": SMOKE,
    "bfloat16": {"model.dtype": "bfloat16", "sampler.dtype": "bfloat16"},
}
configure = partial(configure_images, "joint", COMMON)
