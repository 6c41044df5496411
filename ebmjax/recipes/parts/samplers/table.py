"""The one table of samplers: what makes each, its fields, and what it can and needs."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ebmjax._ranges import (
    BANDWIDTH,
    COUNT,
    FRACTION,
    INSIDE_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    TWO_OR_MORE,
    optional,
)
from ebmjax.recipes.config.declare import Field, field

FIRST_LAYER, BASE = "first_layer", "base"
"""Needs of samplers: a density split after its first layer; a Gaussian of the training images."""

SHARED = ("step_size", "noise_scale", "temperature")
"""Fields with one meaning for every sampler. Families with one section for all samplers have these
in it, and the others in a section of each sampler."""


class SamplerEntry(NamedTuple):
    """A sampler that configurations can name.

    Attributes:
      title: name in tables and pictures.
      made_by: "module:function" of ``function(log_density_fn, **hyperparameters) -> Sampler``.
      fields: hyperparameters by name. Where a sampler has both
        "noise_scale" and "temperature", one is set and makes the noise (see ``temperature``).
      rejects: whether it takes moves back.
      interacting: whether it moves all chains as one system of particles.
      adaptable: whether its step size can adapt to an acceptance.
      needs: "", ``FIRST_LAYER`` or ``BASE``. A sampler that needs the first layer
        also takes the box and the clipping as arguments, for its inner moves.
      memory: fields of its state that chains keep in the buffer (``learning.ChainKind.memory``).
      on_images: defaults for chains on images in [-1, 1], where those of the fields do not suit.
    """

    title: str
    made_by: str
    fields: Mapping[str, Field]
    rejects: bool = False
    interacting: bool = False
    adaptable: bool = False
    needs: str = ""
    memory: tuple[str, ...] = ()
    on_images: Mapping[str, Any] = {}

    @property
    def make(self) -> Callable[..., Any]:
        """The function that makes it, loaded now."""
        module, _, function = self.made_by.partition(":")
        return getattr(importlib.import_module(module), function)


STEP = {"step_size": field(0.01, POSITIVE, "step: the score is multiplied by it")}
TEMPERATURE = {
    "temperature": field(1.0, POSITIVE, "T of the density exp(-E / T) that the chains follow")
}
LANGEVIN = {
    **STEP,
    "noise_scale": field(
        None,
        optional(NOT_NEGATIVE),
        "standard deviation of a step's noise; None: sqrt(2 step_size temperature)",
    ),
    "temperature": field(
        1.0,
        optional(POSITIVE),
        "T of the density exp(-E / T) that the chains follow; None: noise_scale^2 / (2 step_size)",
    ),
}
DECAY = field(0.99, FRACTION, "share of the running second moment that is kept at a step")
DAMPING = field(1e-5, POSITIVE, "added to the root of the second moment before it divides")
BANDWIDTH = {
    "bandwidth": field(
        None,
        optional(BANDWIDTH),
        "width of the kernel: a number, 'median', or None for median / sqrt(2 log n)",
    )
}
LEAPFROGS = field(3, COUNT, "leapfrog steps of a move")
NOISY: Mapping[str, Any] = {"step_size": 1.0, "noise_scale": 0.01, "temperature": None}
"""A Langevin move on images: its noise is chosen, and implies the temperature 5e-5."""
SCALED: Mapping[str, Any] = {**NOISY, "decay": 0.9, "damping": 1.0}
COLD = 5e-5


SAMPLERS: dict[str, SamplerEntry] = {
    "gradient_descent": SamplerEntry(
        "gradient descent", "ebmjax.samplers:gradient_descent", STEP, on_images={"step_size": 1.0}
    ),
    "sgld": SamplerEntry("SGLD", "ebmjax.samplers:sgld", LANGEVIN, on_images=NOISY),
    "proximal_sgld": SamplerEntry(
        "proximal SGLD",
        "ebmjax.recipes.parts.samplers.adapted:proximal_sgld",
        {**LANGEVIN, "max_drift": field(1.0, POSITIVE, "largest drift of a coordinate at a step")},
        on_images=NOISY,
    ),
    "psgld": SamplerEntry(
        "pSGLD",
        "ebmjax.samplers:psgld",
        {
            **LANGEVIN,
            "decay": DECAY,
            "damping": DAMPING,
        },
        on_images=SCALED,
    ),
    "mala": SamplerEntry(
        "MALA", "ebmjax.samplers:mala", LANGEVIN, rejects=True, adaptable=True, on_images=NOISY
    ),
    "tempered_mala": SamplerEntry(
        "tempered MALA",
        "ebmjax.recipes.parts.samplers.adapted:tempered_mala",
        {
            **LANGEVIN,
            "acceptance_threshold": field(
                0.5, PROBABILITY, "T rises while the acceptance is below this"
            ),
            "temperature_growth": field(10.0, POSITIVE, "factor of a rise of T"),
            "acceptance_decay": field(
                0.9,
                PROBABILITY,
                "share of the running acceptance that is kept; 0 judges each move alone",
            ),
        },
        rejects=True,
        on_images=NOISY,
    ),
    "underdamped_langevin": SamplerEntry(
        "underdamped Langevin",
        "ebmjax.samplers:underdamped_langevin",
        {
            **STEP,
            **TEMPERATURE,
            "friction": field(1.0, POSITIVE, "rate at which a velocity is forgotten"),
        },
        memory=("velocity",),
        on_images={"step_size": 1.0, "temperature": COLD},
    ),
    "parallel_tempering": SamplerEntry(
        "parallel tempering",
        "ebmjax.recipes.parts.samplers.adapted:parallel_tempering",
        {
            **STEP,
            **TEMPERATURE,
            "num_powers": field(
                4, TWO_OR_MORE, "replicas of a chain, at powers from the lowest to 1"
            ),
            "lowest_power": field(
                0.1, INSIDE_ONE, "smallest power; each is the same factor above the last"
            ),
            "num_inner": field(1, COUNT, "moves of every replica between swaps"),
        },
        rejects=True,
        adaptable=True,
        memory=("hot", "parity"),
        on_images={"step_size": 1.0, "temperature": COLD},
    ),
    "tilted_langevin": SamplerEntry(
        "Langevin on a tilted Gaussian",
        "ebmjax.samplers:tilted_langevin",
        {
            "step_size": field(
                0.2, POSITIVE, "step: the score is multiplied by it and q's covariance"
            ),
            "temperature": field(
                0.01, POSITIVE, "T of q(x) exp(f(x) / T), q the Gaussian of the training images"
            ),
        },
        rejects=True,
        adaptable=True,
        needs=BASE,
        memory=("component",),
    ),
    "svgd": SamplerEntry(
        "SVGD",
        "ebmjax.samplers:svgd",
        {**STEP, **BANDWIDTH},
        interacting=True,
        on_images={"step_size": 8.0},
    ),
    "adaptive_svgd": SamplerEntry(
        "adaptive SVGD",
        "ebmjax.samplers:adaptive_svgd",
        {
            **STEP,
            "decay": replace(DECAY, default=0.9),
            "damping": replace(DAMPING, default=1e-6),
            **BANDWIDTH,
        },
        interacting=True,
        on_images={"step_size": 0.02},
    ),
    "stochastic_svgd": SamplerEntry(
        "stochastic SVGD",
        "ebmjax.samplers:stochastic_svgd",
        {
            **STEP,
            **TEMPERATURE,
            "langevin_weight": field(1e-3, POSITIVE, "weight of a particle's own Langevin move"),
            **BANDWIDTH,
        },
        interacting=True,
        on_images={"step_size": 8.0, "temperature": COLD},
    ),
    "hmc": SamplerEntry(
        "HMC",
        "ebmjax.samplers:hmc",
        {**STEP, **TEMPERATURE, "num_integration_steps": LEAPFROGS},
        rejects=True,
        adaptable=True,
        on_images={"step_size": 0.1, "temperature": COLD},
    ),
    "pyld": SamplerEntry(
        "PYLD",
        "ebmjax.recipes.parts.samplers.adapted:pyld",
        {
            **STEP,
            "num_inner": field(5, COUNT, "moves for each gradient of the whole network"),
            "noise_scale": field(0.0, NOT_NEGATIVE, "standard deviation of an inner move's noise"),
            "outer_step_size": field(
                0.0, NOT_NEGATIVE, "step of the move by the whole score before them"
            ),
        },
        needs=FIRST_LAYER,
        on_images={"step_size": 0.2},
    ),
}

PLAIN: dict[str, SamplerEntry] = {
    name: entry
    for name, entry in SAMPLERS.items()
    if "step_size" in entry.fields and entry.needs not in (FIRST_LAYER, BASE)
}
"""Samplers with a ``step_size``, on a density that is one function and their whole target."""

SINGLE: dict[str, SamplerEntry] = {
    name: entry for name, entry in PLAIN.items() if not entry.interacting
}
"""Those of them that move one chain at a time."""

TILTING: dict[str, SamplerEntry] = {
    name: entry for name, entry in SAMPLERS.items() if entry.needs == BASE
}
"""Samplers whose target is the density that they are given times a base density of images."""
