"""Every field of an energy's configuration, of images or of points, with the digits' values.

``sampler.names`` lists samplers, among which every batch of negatives is split evenly, and brings
their sections. In a section, noise that is None is the one for ``temperature``, and a temperature
that is None the one that ``noise_scale`` implies.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from ebmjax._ranges import (
    COUNT,
    FINITE,
    FLAG,
    FRACTION,
    POSITIVE,
    PROBABILITY,
    SOURCE,
    UP_TO_ONE,
    WIDTHS,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.recipes.config.by_images import LENGTHS, leave_open
from ebmjax.recipes.config.checks import OF_POINTS, ON_IMAGES
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
from ebmjax.recipes.config.declare import Field, When, field, under, when_is
from ebmjax.recipes.evaluators import table as evaluators
from ebmjax.recipes.parts.objectives import table as objectives
from ebmjax.recipes.parts.samplers.table import PLAIN, TILTING, declare_adaptation, sections

AUGMENTED = when_is("sampler.augmentation.name", "image")
OF_GAUSSIANS = when_is("data.name", "gaussians")
OFFERED = {**PLAIN, **TILTING}


def name_samplers(config: Any) -> tuple[str, ...]:
    """Returns the names of the samplers among which every batch of negatives is split."""
    return tuple(config.get("sampler.names") or (config.get("sampler.name"),))


_OF_RESNET = {
    "model.features": field((16, 32), WIDTHS, "channels of each stage"),
    "model.depth": field(1, COUNT, "residual blocks of a stage"),
    "model.num_scales": field(1, COUNT, "scales at which images are seen"),
    "model.spectral_norm": field(
        1.0, optional(POSITIVE), "largest spectral norm of a kernel; None: any"
    ),
}
_FIELDS: dict[str, Field] = {
    **family("energy"),
    **OF_IMAGES,
    **FEATURES,
    **OF_CHAINS,
    **pick_fields(
        data={"flip": False, "noise_scale": 0.03},
        sampler={"box": "clamp", "buffer.size": 1000},
        loss={"energy_l2": 0.01},
        optimizer={"learning_rate": 1e-3},
        train={"checkpoint_every_epochs": 20},
        evals={"every_epochs": 4.0},
    ),
    **under(pick_fields(optimizer={"b1": 0.0, "b2": 0.999}), when_is("optimizer.name", "adam")),
    **pick_fields(sampler={"low": -1.2, "high": 1.2}),
    "data.name": replace(
        OF_IMAGES["data.name"],
        values=replace(SOURCE, examples=("some", "gmm")),
        text="source of images, or of points: gmm, circles, gaussians, or points (your own)",
    ),
    "data.radius": field(
        10.0, POSITIVE, "distance of the Gaussians' means from the origin", OF_GAUSSIANS
    ),
    "data.scale": field(1.0, POSITIVE, "standard deviation of each Gaussian", OF_GAUSSIANS),
    "data.weights": field(
        (1.0, 1.0, 1.0, 1.0),
        replace(POSITIVE, may_be_empty=False),
        "share of each Gaussian, of any sum; as many as there are",
        OF_GAUSSIANS,
    ),
    "data.dequantise": field(False, FLAG, "add uniform noise of one grey level"),
    **under(
        {
            **pick_fields(model={"activation": "leaky_relu_0.2", "dtype": "float32"}),
            **under(_OF_RESNET, ON_IMAGES),
            "model.hidden": field(
                (32, 64, 64, 64), WIDTHS, "hidden layers of an energy of points", OF_POINTS
            ),
        },
        OURS,
    ),
    "model.is_conditional": field(False, FLAG, "an energy E(x, y) of images with labels"),
    "sampler.name": field(
        "sgld",
        one_of_or_function(*OFFERED),
        "sampler of the negatives",
        When("no config.sampler.names", lambda c: not c.get("sampler.names")),
    ),
    "sampler.names": field(
        (), one_of_or_function(*OFFERED), "samplers that share the negatives, in place of one"
    ),
    "optimizer.name": field("adam", one_of_or_function("adam"), "optimiser"),
    **declare_adaptation(OFFERED, name_samplers),
    "sampler.final_step_fraction": field(
        1.0, UP_TO_ONE, "a training chain's last step, in parts of its first"
    ),
    "sampler.buffer.start": field(
        "uniform",
        one_of("uniform", "gaussian", "data", "informative"),
        "data: a training point under noise; informative: a class's Gaussian, or a cluster's",
    ),
    "sampler.buffer.start_mean": field(
        (0.0,),
        FINITE,
        "mean of the starts: a number, or one for each coordinate of points",
        when_is("sampler.buffer.start", "gaussian"),
    ),
    "sampler.augmentation.name": field(
        "none", one_of("none", "image"), "augmentation of starts from the buffer"
    ),
    "sampler.augmentation.min_area": field(0.08, UP_TO_ONE, "least share of a crop", AUGMENTED),
    "sampler.augmentation.is_flipped": field(True, FLAG, "flip starts at random", AUGMENTED),
    "sampler.augmentation.jitter_prob": field(
        0.8, PROBABILITY, "probability of changed colours", AUGMENTED
    ),
    **objectives.fields("energy"),
    "optimizer.max_norm": field(
        None, optional(POSITIVE), "largest norm of a gradient; None: not clipped"
    ),
    "optimizer.final_fraction": field(
        1.0, UP_TO_ONE, "last learning rate, in parts of the first; it decays geometrically"
    ),
    "optimizer.average_decay": field(
        0.99, FRACTION, "decay of the averaged parameters that are evaluated"
    ),
    **evaluators.fields("samples", ON_IMAGES),
    **evaluators.fields("energies"),
    **evaluators.fields("nats"),
    **evaluators.fields("profile"),
    **evaluators.fields(
        "generation", ON_IMAGES, without=("selected_by_confidence", "smallest_num")
    ),
    **evaluators.fields("mixing", ON_IMAGES),
    **evaluators.fields("fit"),
    **evaluators.fields("density", OF_POINTS),
    **evaluators.fields("comparison", OF_POINTS),
    "evals.step_factor": field(
        1.0, POSITIVE, "steps of --mode=eval's chains, in steps of training's"
    ),
}
for _name in ("data.flip", "data.noise_scale", "data.dequantise"):
    _FIELDS |= under({_name: _FIELDS[_name]}, ON_IMAGES)
FIELDS = leave_open(_FIELDS, *LENGTHS)
SECTIONS = sections(OFFERED, "sampler.name", name_samplers)


SMOKE: dict[str, Any] = {
    **SMOKE_SIZES,
    "model.features": (4, 8),
    "model.depth": 1,
    "sampler.num_steps": 3,
    "sampler.num_samples": 12,
    "loss.num_references": 8,
    "evals.num_chain_steps": 8,
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


def steps_of(step_size: float, temperature: float = 1.0) -> dict[str, Any]:
    """Returns one step for every sampler, and one temperature for those that have one."""
    given = {"step_size": step_size, "temperature": temperature}
    return {
        f"sampler.{name}.{key}": value
        for name, entry in PLAIN.items()
        for key, value in given.items()
        if key in entry.fields
    }


COMMON: dict[str, dict[str, Any]] = {"smoke": SMOKE, "bfloat16": {"model.dtype": "bfloat16"}}
configure = partial(configure_images, "energy", COMMON)
