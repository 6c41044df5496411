"""The one table of samplers: signatures are their fields, and facts stand on the functions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ebmjax import samplers
from ebmjax._ranges import optional
from ebmjax.recipes.config.declare import Field
from ebmjax.recipes.config.signatures import read_fields
from ebmjax.recipes.parts.samplers import adapted

FIRST_LAYER, BASE = "first_layer", "base"
"""Needs of samplers: a density split after its first layer; a Gaussian of the training images."""

SHARED = ("step_size", "noise_scale", "temperature")
"""Fields with one meaning for every sampler. Families with one section for all samplers have these
in it, and the others in a section of each sampler."""

IMPLIED = "T of the density exp(-E / T) that chains follow; None: noise_scale^2 / (2 step_size)"


class SamplerEntry(NamedTuple):
    """A sampler that a configuration names, ours or the user's.

    Attributes:
      make: function of a log density and hyperparameters.
      fields: hyperparameters by name. Where a sampler has both "noise_scale" and "temperature", one
        is set and makes the noise (see ``temperature``).
      on_images: defaults for chains on images in [-1, 1], where those of the fields do not suit.
      needs: "", ``FIRST_LAYER`` or ``BASE``. A sampler that needs the first layer also takes the
        box and the clipping as arguments, for its inner moves.
    """

    make: Callable[..., Any]
    fields: Mapping[str, Field]
    on_images: Mapping[str, Any] = {}
    needs: str = ""

    @property
    def rejects(self) -> bool:
        """Returns whether it takes moves back."""
        return getattr(self.make, "rejects", False)

    @property
    def interacts(self) -> bool:
        """Returns whether it moves all chains as one system of particles."""
        return getattr(self.make, "interacts", False)

    @property
    def adapts(self) -> bool:
        """Returns whether its step size can adapt to an acceptance."""
        return getattr(self.make, "adapts", False)

    @property
    def memory(self) -> tuple[str, ...]:
        """Fields of its state that chains keep in the buffer (``learning.ChainKind.memory``)."""
        return getattr(self.make, "memory", ())


def describe(
    make: Callable[..., Any],
    on_images: Mapping[str, Any] = {},
    needs: str = "",
    **defaults: Any,
) -> SamplerEntry:
    """Returns the entry of a sampler; ``defaults`` take the place of its signature's."""
    fields = read_fields(make, **{"step_size": 0.01, **defaults})
    fields.pop("drive", None)  # 1 but in a schedule
    if {"noise_scale", "temperature"} <= fields.keys():
        given = fields["temperature"]
        default = 1.0 if given.default is None else given.default
        values = optional(given.values)
        fields["temperature"] = replace(given, default=default, values=values, text=IMPLIED)
    return SamplerEntry(make, fields, on_images, needs)


NOISY: Mapping[str, Any] = {"step_size": 1.0, "noise_scale": 0.01, "temperature": None}
"""A Langevin move on images: its noise is chosen, and implies the temperature 5e-5."""
SCALED: Mapping[str, Any] = {**NOISY, "decay": 0.9, "damping": 1.0}
COLD: Mapping[str, Any] = {"step_size": 1.0, "temperature": 5e-5}

SAMPLERS: dict[str, SamplerEntry] = {
    "gradient_descent": describe(samplers.gradient_descent, {"step_size": 1.0}),
    "sgld": describe(samplers.sgld, NOISY),
    "proximal_sgld": describe(adapted.proximal_sgld, NOISY),
    "psgld": describe(samplers.psgld, SCALED),
    "mala": describe(samplers.mala, NOISY),
    "tempered_mala": describe(adapted.tempered_mala, NOISY),
    "underdamped_langevin": describe(samplers.underdamped_langevin, COLD),
    "parallel_tempering": describe(adapted.parallel_tempering, COLD),
    "tilted_langevin": describe(
        samplers.tilted_langevin, needs=BASE, step_size=0.2, temperature=0.01
    ),
    "svgd": describe(samplers.svgd, {"step_size": 8.0}),
    "adaptive_svgd": describe(samplers.adaptive_svgd, {"step_size": 0.02}),
    "stochastic_svgd": describe(samplers.stochastic_svgd, COLD | {"step_size": 8.0}),
    "hmc": describe(samplers.hmc, COLD | {"step_size": 0.1}, num_integration_steps=3),
    "pyld": describe(adapted.pyld, {"step_size": 0.2}, needs=FIRST_LAYER),
}
LANGEVIN = {name: SAMPLERS["sgld"].fields[name] for name in SHARED}

PLAIN: dict[str, SamplerEntry] = {
    name: entry for name, entry in SAMPLERS.items() if not entry.needs
}
"""Samplers on a density that is one function and their whole target."""

SINGLE: dict[str, SamplerEntry] = {
    name: entry for name, entry in PLAIN.items() if not entry.interacts
}
"""Those of them that move one chain at a time."""

TILTING: dict[str, SamplerEntry] = {
    name: entry for name, entry in SAMPLERS.items() if entry.needs == BASE
}
"""Samplers whose target is the density that they are given times a base density of images."""
