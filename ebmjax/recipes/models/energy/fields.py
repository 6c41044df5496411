"""Every field of a density's configuration, with labels (joint) or without, with JEM's values.

``sampler.name`` brings the section of its sampler. ``sampler.names`` lists samplers, among which
every batch of negatives is split evenly.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from ebmjax._ranges import (
    COUNT,
    FINITE,
    FLAG,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    SOURCE,
    UP_TO_ONE,
    WHOLE,
    WIDTHS,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.recipes.config.common_fields import (
    OF_CHAINS,
    OF_IMAGES,
    OURS,
    SMOKE_SIZES,
    configure_images,
    family,
    pick_fields,
)
from ebmjax.recipes.config.declare import Field, When, field, rare, under, when_is, when_set
from ebmjax.recipes.config.families import OF_POINTS, ON_IMAGES
from ebmjax.recipes.evaluators import table as evaluators
from ebmjax.recipes.parts import objectives, samplers

BATCH_NORM = When(
    "batch normalisation, config.model.norm=batch or your own network's",
    lambda c: c.get("model.norm") == "batch" or c.get("model.factory"),
)
ENERGY = When(
    "an energy model, config.loss.generative_weight above 0",
    lambda c: c.get("loss.generative_weight"),
)
BUFFER, KEPT = when_set("sampler.buffer.size"), when_set("sampler.buffer.num_kept")
GAUSSIAN = when_is("sampler.buffer.start", "gaussian")
ALONE = When("no config.sampler.names", lambda c: not c.get("sampler.names"))
DEPTH = replace(
    COUNT,
    words="10, 16, 22, 28 or another 6 n + 4",
    holds=lambda v: COUNT.holds(v) and v >= 10 and v % 6 == 4,
    examples=(10, 16),
)
WITHOUT_LABELS = {**samplers.PLAIN, **samplers.TILTING}


def _shared(name: str, decay: float, **defaults: Any) -> dict[str, Field]:
    """Returns the fields of both families, with the defaults of one."""
    return {
        **family(name),
        **OF_IMAGES,
        **OF_CHAINS,
        **pick_fields(**defaults),
        **under(pick_fields(model={"dtype": "float32"}), OURS),
        "model.is_conditional": field(False, FLAG, "E(x, y): chains follow p(x | y) of a class"),
        "optimizer.average_decay": field(decay, FRACTION, "decay of averaged parameters; 0: none"),
    }


def _evaluators(*names: str) -> dict[str, Field]:
    return {key: one for name in names for key, one in evaluators.fields(name).items()}


AUGMENTED = {"flip": False, "noise_scale": 0.03}
_JOINT: dict[str, Field] = {
    **_shared("joint", 0.0, optimizer={"learning_rate": 5e-3, "warmup_steps": 0}, data=AUGMENTED),
    "data.num_per_class": rare(None, optional(COUNT), "first images used of a class; None: all"),
    "data.crop_padding": field(
        1, optional(WHOLE), "pixels added before a random crop; None: 1 from 16 pixels on, else 0"
    ),
    "data.dequantise": field(False, FLAG, "p(x) sees uniform noise of one grey level alone"),
    "data.augment_positives": field(
        True, optional(FLAG), "augment images of p(x), too; None: beyond 16 pixels and 100 epochs"
    ),
    **under(
        {
            "model.depth": field(10, DEPTH, "layers of the wide ResNet"),
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
    "sampler.name": field("sgld", one_of_or_function(*samplers.SAMPLERS), "moves the negatives"),
    "sampler.buffer.start": field(
        "uniform", one_of("uniform", "gaussian", "informative"), "informative: a Gaussian a class"
    ),
    "sampler.buffer.num_kept": rare(None, optional(COUNT), "chains kept in the buffer; None: all"),
    "sampler.buffer.replacement": field(
        "in_place", one_of("in_place", "softmax", "argmax"), "how chains are put back", KEPT
    ),
    **objectives.fields("joint", "objective of p(x)"),
    **under(
        {
            "loss.attack.radius": field(8.0, NOT_NEGATIVE, "levels of 255 that an image may move"),
            "loss.attack.norm": field("linf", one_of("linf", "l2"), "norm of that distance"),
            "loss.attack.num_steps": field(10, COUNT, "steps of the attack (PGD) in training"),
            "loss.attack.step_size": field(
                None, optional(POSITIVE), "levels of 255; None: 2.5 radius / num_steps"
            ),
        },
        when_is("loss.name", "dat", "eb_jdat"),
    ),
    "loss.generative_weight": field(1.0, NOT_NEGATIVE, "weight of -log p(x); 0: a classifier"),
    "loss.smoothing": field(1.0, POSITIVE, "alpha: p(x) is proportional to exp(f / alpha)"),
    "optimizer.name": field("adam", one_of_or_function("adam", "sgd"), "optimiser"),
    "optimizer.weight_decay": field(0.0, NOT_NEGATIVE, "coupled weight decay"),
    "optimizer.schedule": field("steps", one_of("steps", "cosine"), "how the learning rate falls"),
    **under(
        {
            "optimizer.decay_epochs": field((24.0, 34.0), NOT_NEGATIVE, "epochs of a step down"),
            "optimizer.decay_factor": field(0.3, UP_TO_ONE, "factor of each step down"),
        },
        when_is("optimizer.schedule", "steps"),
    ),
    "optimizer.rho": rare(None, optional(POSITIVE), "radius of SAM; None: without SAM"),
    "optimizer.adaptive": field(False, FLAG, "SAM is adaptive (ASAM)", when_set("optimizer.rho")),
    "train.positive_batch_size": field(64, COUNT, "images of p(x) in an update"),
    "train.max_abs_loss": field(
        1e5, optional(POSITIVE), "largest loss; None: 5 + log(classes), 100000 without chains"
    ),
    **_evaluators("classification", "ood", "robustness", "landscape", "nats"),
    **under(_evaluators("profile", "samples"), ENERGY, BUFFER),
    **under(_evaluators("generation", "inpainting"), ENERGY),
}
_ENERGY: dict[str, Field] = {
    **_shared(
        "energy",
        0.99,
        sampler={"box": "clamp", "buffer.size": 1000, "low": -1.2, "high": 1.2},
        loss={"energy_l2": 0.01},
        optimizer={"learning_rate": 1e-3},
        train={"checkpoint_every_epochs": 20},
        evals={"every_epochs": 4.0},
    ),
    **under(pick_fields(optimizer={"b1": 0.0, "b2": 0.999}), when_is("optimizer.name", "adam")),
    "data.name": replace(
        OF_IMAGES["data.name"],
        values=replace(SOURCE, examples=("some", "gmm")),
        text="source of images, or of points: gmm, circles, gaussians, or points (your own)",
    ),
    **under(
        {
            "data.radius": field(10.0, POSITIVE, "distance of the Gaussians from the origin"),
            "data.scale": field(1.0, POSITIVE, "standard deviation of each Gaussian"),
            "data.weights": field(
                (1.0,) * 4, replace(POSITIVE, may_be_empty=False), "shares of the Gaussians"
            ),
        },
        when_is("data.name", "gaussians"),
    ),
    **under(
        {
            **pick_fields(data=AUGMENTED),
            "data.dequantise": field(False, FLAG, "add uniform noise of one grey level"),
            **_evaluators("samples", "inpainting"),
            **evaluators.fields("generation", without=("selected_by_confidence",)),
        },
        ON_IMAGES,
    ),
    **under(
        {
            **pick_fields(model={"activation": "leaky_relu_0.2"}),
            "model.hidden": field((32, 64, 64, 64), WIDTHS, "hidden layers, of points", OF_POINTS),
            "model.features": field((16, 32), WIDTHS, "channels of each stage", ON_IMAGES),
            "model.depth": field(1, COUNT, "residual blocks of a stage", ON_IMAGES),
            "model.num_scales": field(1, COUNT, "scales at which images are seen", ON_IMAGES),
            "model.spectral_norm": field(
                1.0, optional(POSITIVE), "largest spectral norm of a kernel; None: any", ON_IMAGES
            ),
        },
        OURS,
    ),
    "sampler.name": field(
        "sgld", one_of_or_function(*WITHOUT_LABELS), "sampler of the negatives", ALONE
    ),
    "sampler.names": field((), one_of_or_function(*WITHOUT_LABELS), "they share the negatives"),
    "optimizer.name": field("adam", one_of_or_function("adam"), "optimiser"),
    "sampler.final_step_fraction": field(1.0, UP_TO_ONE, "last over first step in training"),
    "sampler.buffer.start": field(
        "uniform",
        one_of("uniform", "gaussian", "data", "informative"),
        "data: a training point under noise; informative: a class's Gaussian, or a cluster's",
    ),
    "sampler.buffer.start_mean": field(
        (0.0,), FINITE, "mean of the starts: a number, or one for each coordinate", GAUSSIAN
    ),
    "sampler.augmentation.name": field(
        "none", one_of("none", "image"), "augmentation of starts from the buffer", BUFFER
    ),
    **under(
        {
            "sampler.augmentation.min_area": field(0.08, UP_TO_ONE, "least share of a crop"),
            "sampler.augmentation.is_flipped": field(True, FLAG, "flip starts at random"),
            "sampler.augmentation.jitter_prob": field(0.8, PROBABILITY, "share of new colours"),
        },
        BUFFER,
        when_is("sampler.augmentation.name", "image"),
    ),
    **objectives.fields("energy"),
    "optimizer.max_norm": field(None, optional(POSITIVE), "largest norm of a gradient; None: any"),
    "optimizer.final_fraction": field(1.0, UP_TO_ONE, "last over first learning rate"),
    **_evaluators("energies", "nats", "profile"),
    **under(_evaluators("density", "comparison"), OF_POINTS),
}
FIELDS = {"energy": _ENERGY, "joint": _JOINT}
SECTIONS = {
    name: samplers.sections(
        known, "sampler.name", lambda c: c.get("sampler.names") or (c.get("sampler.name"),)
    )
    for name, known in {"energy": WITHOUT_LABELS, "joint": samplers.SAMPLERS}.items()
}

SMOKE: dict[str, dict[str, Any]] = {
    "energy": {
        **SMOKE_SIZES,
        "model.features": (4, 8),
        "model.depth": 1,
        "sampler.num_steps": 3,
        "sampler.num_samples": 12,
        "loss.num_references": 8,
        "evals.num_chain_steps": 8,
    },
    "joint": {
        **SMOKE_SIZES,
        "model.depth": 10,
        "model.widen_factor": 1,
        "sampler.num_steps": 2,
        "sampler.num_samples": 8,
        "sampler.buffer.num_kept": None,
        "train.positive_batch_size": 16,
        "evals.ood.tfds": (),
        "evals.robustness.num_images": 16,
        "evals.robustness.num_steps": 2,
        "evals.landscape.num_points": 3,
    },
}

POINTS: dict[str, Any] = {
    "data.max_test": 1000,
    "model.activation": "leaky_relu_0.05",
    "sampler.box": "none",
    "sampler.buffer.size": None,
    "sampler.buffer.start": "gaussian",
    "loss.energy_l2": 0.0,
    "optimizer.b1": 0.9,
    "optimizer.final_fraction": 0.1,
    "optimizer.average_decay": 0.0,
    "evals.batch_size": 10_000,
}
"""Changes of a configuration of points: chains at temperature 1 that start anew, and no box."""


configure, configure_joint = (
    partial(configure_images, name, {"smoke": SMOKE[name]}) for name in ("energy", "joint")
)
