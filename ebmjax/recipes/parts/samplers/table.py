"""Samplers that configurations name: signatures are their fields, facts stand on the functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp

from ebmjax import densities, samplers
from ebmjax._ranges import (
    INSIDE_ONE,
    POSITIVE,
    TWO_OR_MORE,
    optional,
)
from ebmjax.recipes.config import declare
from ebmjax.recipes.config.declare import Field, When, field, rare, read_fields, under

FIRST_LAYER, BASE = "first_layer", "base"
"""Needs of samplers: a density split after its first layer; a Gaussian of the training images."""

TEMPERATURE = "T of the density exp(-E / T) that the chains follow"
NO_FIELDS = ("curvature_drift", "drive", "max_score", "num_steps")
"""Arguments of the library's samplers that are no fields: ours stand in other sections."""
AT_DEFAULT = ("acceptance_threshold", "temperature_growth", "langevin_weight")
"""Arguments that a configuration leaves at their defaults."""


class SamplerEntry(NamedTuple):
    """A sampler that a configuration names, ours or the user's.

    The last four are facts of bound forms, see ``ebmjax.samplers``.

    Attributes:
      make: function of a log density and hyperparameters.
      fields: hyperparameters by name. A "noise_scale" that is set takes the place of "temperature".
      needs: "", ``FIRST_LAYER`` or ``BASE``. A sampler that needs the first layer also takes the
        box and the clipping as arguments, for its inner moves.
    """

    make: Callable[..., Any]
    fields: Mapping[str, Field]
    needs: str = ""
    rejects: bool = False
    adapts: bool = False
    interacts: bool = False
    memory: tuple[str, ...] = ()


def describe(
    make: Callable[..., Any],
    of: Callable[..., Any] | None = None,
    needs: str = "",
    **defaults: Any,
) -> SamplerEntry:
    """Returns the entry of a sampler. The noise of one that rejects follows its temperature.

    Args:
      make: the function, whose fields and facts are read.
      of: sampler of the library that ``make`` gives further options to: it has the facts and those
        fields.
      needs: see ``SamplerEntry``.
      defaults: in place of the signature's.
    """
    defaults = {"step_size": 0.01, **defaults}
    fields = {} if of is None else read_fields(of, **defaults)
    fields |= read_fields(make, **defaults)
    facts = {name: getattr(of or make, name, None) for name in SamplerEntry._fields[3:]}
    for name in (*NO_FIELDS, *AT_DEFAULT, *["noise_scale"] * bool(facts["rejects"])):
        fields.pop(name, None)
    if "temperature" in fields:
        one = fields["temperature"]
        default = 1.0 if one.default is None else one.default
        fields["temperature"] = field(default, POSITIVE, TEMPERATURE)
    return SamplerEntry(make, fields, needs, **{k: v for k, v in facts.items() if v is not None})


def proximal_sgld(
    log_density_fn: Any, *, max_drift: Annotated[Any, POSITIVE] = 1.0, **options: Any
) -> samplers.Sampler:
    """Returns SGLD whose drift is clipped, as in JEM++ and SADA-JEM.

    Args:
      max_drift: largest drift of a coordinate at a step.
    """
    return samplers.clip_drift(samplers.sgld, max_drift)(log_density_fn, **options)


def tempered_mala(
    log_density_fn: Any,
    *,
    step_size: Any,
    temperature: Annotated[Any, POSITIVE] = 1.0,
    **options: Any,
) -> samplers.Sampler:
    """Returns tempered MALA whose first moves are MALA's of the same step.

    The library divides the step by the temperature; here it is multiplied by it first.

    Args:
      temperature: T at the start.
    """
    return samplers.tempered_mala(
        log_density_fn, step_size=step_size * temperature, temperature=temperature, **options
    )


def parallel_tempering(
    log_density_fn: Any,
    *,
    step_size: Annotated[Any, POSITIVE],
    temperature: Annotated[Any, POSITIVE] = 1.0,
    num_powers: Annotated[int, TWO_OR_MORE] = 4,
    lowest_power: Annotated[Any, INSIDE_ONE] = 0.1,
) -> samplers.Sampler:
    """Returns tempering of MALA on powers that fall by one factor from 1 to the lowest.

    The replica at power t makes MALA's moves of the same step at the temperature T / t.

    Args:
      step_size: the score is multiplied by it.
      temperature: T of the density exp(-E / T) that the chains follow.
      num_powers: replicas of a chain, at powers from the lowest to 1.
      lowest_power: smallest power; each is the same factor above the last.
    """
    powers = lowest_power ** jnp.linspace(1.0, 0.0, num_powers)
    return samplers.parallel_tempering(
        densities.tempered(log_density_fn, temperature),
        powers=powers,
        step_size=step_size * temperature / powers,
    )


def pyld(density: Any, **options: Any) -> samplers.Sampler:
    """Returns PYLD on a density with the attributes ``first_layer`` and ``head``."""
    return samplers.pyld(density.first_layer, density.head, **options)


SAMPLERS: dict[str, SamplerEntry] = {
    "gradient_descent": describe(samplers.gradient_descent),
    "sgld": describe(samplers.sgld),
    "proximal_sgld": describe(proximal_sgld, samplers.sgld),
    "psgld": describe(samplers.psgld),
    "mala": describe(samplers.mala),
    "tempered_mala": describe(tempered_mala, samplers.tempered_mala),
    "underdamped_langevin": describe(samplers.underdamped_langevin),
    "parallel_tempering": describe(parallel_tempering, samplers.parallel_tempering),
    "tilted_langevin": describe(
        samplers.tilted_langevin, needs=BASE, step_size=0.2, temperature=0.01
    ),
    "svgd": describe(samplers.svgd),
    "adaptive_svgd": describe(samplers.adaptive_svgd),
    "stochastic_svgd": describe(samplers.stochastic_svgd),
    "hmc": describe(samplers.hmc, num_integration_steps=3),
    "pyld": describe(pyld, samplers.pyld, FIRST_LAYER, num_inner=5, noise_scale=0.0),
}

PLAIN = {name: entry for name, entry in SAMPLERS.items() if not entry.needs}
"""Samplers on a density that is one function and their whole target."""
SINGLE = {name: entry for name, entry in PLAIN.items() if not entry.interacts}
"""Those of them that move one chain at a time."""
TILTING = {name: entry for name, entry in SAMPLERS.items() if entry.needs == BASE}
"""Samplers whose target is the density that they are given times a base density of images."""


def defaults(name: str) -> dict[str, Any]:
    """Returns the table's values of the hyperparameters of a sampler."""
    return declare.defaults(SAMPLERS[name].fields).to_dict()


def sections(
    names: Iterable[str],
    words: str,
    named: Callable[[Any], Iterable[str]],
    left_out: Iterable[str] = (),
) -> dict[str, Field]:
    """Returns the fields of samplers, ``sampler.<name>.<field>``, for a family.

    Args:
      names: samplers of the table that the family offers.
      words: field that names them, for messages.
      named: function from a configuration to the samplers that it names.
      left_out: fields that the family has in another section.
    """
    made = {}
    for name in names:
        when = When(f"config.{words}={name}", lambda config, name=name: name in named(config))
        own = {f"sampler.{name}.{key}": one for key, one in SAMPLERS[name].fields.items()}
        noise, temperature = f"sampler.{name}.noise_scale", f"sampler.{name}.temperature"
        if {noise, temperature} <= own.keys():
            none = When(f"no config.{noise}", lambda config, noise=noise: config.get(noise) is None)
            own[noise] = replace(own[noise], off=None)
            own[temperature] = replace(own[temperature], when=(none,))
        made |= under({k: v for k, v in own.items() if k.split(".")[-1] not in left_out}, when)
    return made


def declare_adaptation(
    names: Iterable[str], named: Callable[[Any], Iterable[str]]
) -> dict[str, Field]:
    """Returns the field that those samplers have besides their sections whose step can adapt."""
    able = [name for name in names if SAMPLERS[name].adapts]
    needs = f"a sampler whose step can adapt, config.sampler.name={' or '.join(able)}"
    when = When(needs, lambda config: any(name in able for name in named(config)))
    text = "acceptance that the step adapts to; None: fixed"
    return {"sampler.target_acceptance": rare(None, optional(POSITIVE), text, when)}
