"""The one table of objectives: what makes each, what it needs, its fields."""

import inspect
from collections.abc import Mapping
from typing import NamedTuple

from ebmjax._ranges import (
    BELOW_ONE,
    COUNT,
    FLAG,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    WHOLE,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.recipes.config.declare import Field, field, under, when_is
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import find_function, is_users


class ObjectiveEntry(NamedTuple):
    """An objective that configurations can name.

    Its file and its function have its name, see ``objective.make_loss``.

    Attributes:
      fields: its fields ``loss.<field>``, by the model that has them.
      section: its fields ``loss.<name>.<field>``, which only configurations have that name it.
      draws: whether it compares the data with samples of chains.
      has_levels: whether its model is of (x, noise); its file's ``fit`` returns ``NoiseLevels``.
    """

    fields: Mapping[str, Mapping[str, Field]] = {"energy": {}, "joint": {}}
    section: Mapping[str, Field] = {}
    draws: bool = True
    has_levels: bool = False


def _chainless(section: Mapping[str, Field]) -> ObjectiveEntry:
    return ObjectiveEntry(section=section, draws=False)


def _with_levels(section: Mapping[str, Field]) -> ObjectiveEntry:
    levels = {
        "min_noise_scale": field(
            0.05, POSITIVE, "smallest noise, which evaluations see, in units of the data"
        ),
        "max_noise_scale": field(
            None, optional(POSITIVE), "largest noise; None: the largest distance of two examples"
        ),
    }
    return _chainless({**levels, **section})._replace(has_levels=True)


_ROBUST = {
    "beta_variant": field(
        "default",
        one_of("default", "no_positive", "batch_corrected", "true_objective"),
        "form of the robust objective",
    ),
    "output_scale": field(1.0, POSITIVE, "factor on the log density inside the robust objective"),
    "max_positive_weight": field(
        None,
        optional(PROBABILITY),
        "updates whose data have a larger mean weight are skipped; None: none are",
    ),
}
OBJECTIVES = {
    "contrastive_divergence": ObjectiveEntry(),
    "improved": ObjectiveEntry(
        {
            "energy": {
                "kl_weight": field(1.0, NOT_NEGATIVE, "weight of the KL term"),
                "entropy_weight": field(
                    0.3 / 64, NOT_NEGATIVE, "weight of the entropy of the negatives"
                ),
                "live_steps": field(1, COUNT, "last steps that are differentiated"),
                "num_references": field(
                    100, COUNT, "buffered images among which neighbours are sought"
                ),
            }
        },
    ),
    "beta": ObjectiveEntry(
        {
            "energy": {
                **_ROBUST,
                "beta": field(
                    0.0, BELOW_ONE, "exponent of the robust objective, at the end of the run"
                ),
                "beta_start": field(
                    None,
                    optional(BELOW_ONE),
                    "beta at the start, linear to loss.beta; None: constant",
                ),
                "allow_negative": field(False, FLAG, "allow a beta below 0"),
            },
            "joint": {
                **_ROBUST,
                "beta": field(0.0, FRACTION, "exponent of the robust objective"),
            },
        },
    ),
    "svgd": ObjectiveEntry(
        {
            "joint": {
                "svgd_variant": field(
                    "corrected", one_of("corrected", "literal"), "form of the loss of SVGD"
                )
            }
        },
    ),
    "denoising": _chainless(
        {
            "noise_scale": field(
                0.3, POSITIVE, "noise at which scores are matched, in units of the data"
            )
        },
    ),
    "denoising_levels": _with_levels(
        {
            "relative_step": field(
                0.5, POSITIVE, "step of annealed chains, in squares of a level's noise"
            )
        },
    ),
    "diffusion_recovery": _with_levels(
        {
            "num_levels": field(6, COUNT, "noise levels"),
            "num_steps": field(30, COUNT, "steps of a training chain, from one level to the next"),
            "relative_step": field(
                0.1, POSITIVE, "step of chains, in squares of the noise between two levels"
            ),
        },
    ),
    "score_matching": _chainless(
        {
            "num_slices": field(
                1, WHOLE, "random directions of each example; 0: exact, along every coordinate"
            )
        },
    ),
    "energy_discrepancy": _chainless(
        {
            "noise_scale": field(
                0.3, POSITIVE, "sqrt(t): each of two noises of a copy, in units of the data"
            ),
            "num_copies": field(16, COUNT, "perturbed copies of each example"),
            "stabiliser": field(1.0, NOT_NEGATIVE, "w: weight of the example itself"),
        },
    ),
    "noise_contrastive": _chainless(
        {
            "noise_ratio": field(1, COUNT, "draws of the noise for each example"),
            "noise_scale": field(
                0.1, POSITIVE, "what blurs the Gaussian of the data that the noise is"
            ),
        },
    ),
    "energy_matching": _chainless(
        {
            "warmup": field(
                0.5, PROBABILITY, "share of the run's steps before contrastive divergence begins"
            ),
            "temperature": field(
                0.1, POSITIVE, "of the chains: a unit of the potential per nat of the energy"
            ),
            "ramp_start": field(
                0.8, FRACTION, "time from which paths count less and chains from noise warm up"
            ),
            "contrastive_weight": field(
                1.0, NOT_NEGATIVE, "weight of contrastive divergence beside the paths"
            ),
            "num_steps": field(100, COUNT, "steps of a training chain"),
            "step_size": field(0.02, POSITIVE, "time of a step; noise reaches the data at time 1"),
        },
    ),
}

WITHOUT_CHAINS = tuple(name for name, one in OBJECTIVES.items() if not one.draws)


def draws(config: Config) -> bool:
    """Returns whether the objective of ``config.loss`` compares the data with samples of chains."""
    name = config.loss.name
    if not is_users(name):
        return OBJECTIVES[name].draws
    return "negatives" in inspect.signature(find_function("loss.name", name)).parameters


def serving(model: str) -> list[str]:
    """Returns the names of the objectives that a model, "energy" or "joint", can be trained by."""
    return [name for name, one in OBJECTIVES.items() if model in one.fields]


def fields(model: str, text: str = "objective") -> dict[str, Field]:
    """Returns ``loss.name`` and the fields of the objectives that serve a model."""
    names = serving(model)
    made = {"loss.name": field(names[0], one_of_or_function(*names), text)}
    for name in names:
        own = {f"loss.{key}": one for key, one in OBJECTIVES[name].fields[model].items()}
        made |= under(own, when_is("loss.name", name))
    return made


def sections(model: str) -> dict[str, Field]:
    """Returns the fields ``loss.<name>.<field>`` of the objectives that serve a model."""
    made: dict[str, Field] = {}
    for name in serving(model):
        own = {f"loss.{name}.{key}": one for key, one in OBJECTIVES[name].section.items()}
        made |= under(own, when_is("loss.name", name))
    return made
