"""Remedies of a run that diverged: changes before it goes on. Nothing here imports JAX.

These are the remedies of the papers' authors. They follow one another and add up.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ebmjax.recipes.config import declare
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import Config

PENALTY = 0.01
"""First weight of the penalty on squared energies: the digits' own."""


class Remedy(NamedTuple):
    """One remedy.

    Attributes:
      words: what it is, for people.
      changes: function from a field's value to the new one, by a regular expression for the names
        of the fields, in any family.
    """

    words: str
    changes: Mapping[str, Callable[[Any], Any]]


REMEDIES = {
    "step_size": Remedy(
        "half the step of the sampler, at the same temperature",
        {
            r"sampler\.(.+\.)?step_size": lambda step: step / 2,
            r"sampler\.(.+\.)?noise_scale": lambda noise: noise / 2**0.5,
        },
    ),
    "chain_steps": Remedy(
        "twice the steps of a chain",
        {r"sampler\.((prior|posterior)\.)?num_steps": lambda steps: 2 * steps},
    ),
    "learning_rate": Remedy(
        "half the learning rate",
        {r"optimizer\.((prior|generator)\.(final_)?)?learning_rate": lambda rate: rate / 2},
    ),
    "energy_penalty": Remedy(
        "a larger penalty on squared energies",
        {r"loss\.energy_l2": lambda weight: max(10 * weight, PENALTY)},
    ),
}


def change_of(remedy: str, name: str) -> Callable[[Any], Any] | None:
    """Returns what a remedy does to the field ``name``; None where it leaves it."""
    found = REMEDIES[remedy].changes.items()
    return next((change for pattern, change in found if re.fullmatch(pattern, name)), None)


def changes(fields: Fields, config: Config, remedy: str) -> dict[str, list[Any]]:
    """Returns what a remedy changes: [value, new value] by field; empty where nothing has effect.

    Args:
      fields: of the configuration's family.
      config: the configuration to be changed, with what its images have chosen.
      remedy: name in ``REMEDIES``.
    """
    if remedy == "step_size" and config.sampler.get("target_acceptance") is not None:
        return {}  # the steps adapt, and a checkpoint holds them
    found = {}
    for name in fields:
        change = change_of(remedy, name)
        if change is None or config[name] is None or declare.no_effect(fields, config, name):
            continue
        if (new := change(config[name])) != config[name]:
            found[name] = [config[name], new]
    return found
