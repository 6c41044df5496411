"""Remedies of a run that diverged: changes before it goes on. Nothing here imports JAX.

These are the remedies of the papers' authors. They follow one another and add up.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ebmjax.recipes.core import declare
from ebmjax.recipes.core.declare import Fields
from ebmjax.recipes.core.fields import Config

PENALTY = 0.01
"""First weight of the penalty on squared energies: the digits' own."""


class Remedy(NamedTuple):
    """One remedy.

    Attributes:
      words: what it is, for people.
      fields: names of the fields that it changes, in any family.
      change: function from a field's value to the new one.
    """

    words: str
    fields: tuple[str, ...]
    change: Callable[[Any], Any]


REMEDIES = {
    "chain_steps": Remedy(
        "twice the steps of a chain",
        ("sampler.num_steps", "sampler.prior.num_steps", "sampler.posterior.num_steps"),
        lambda steps: 2 * steps,
    ),
    "learning_rate": Remedy(
        "half the learning rate",
        (
            "optimizer.learning_rate",
            "optimizer.prior.learning_rate",
            "optimizer.prior.final_learning_rate",
            "optimizer.generator.learning_rate",
            "optimizer.generator.final_learning_rate",
        ),
        lambda rate: rate / 2,
    ),
    "energy_penalty": Remedy(
        "a larger penalty on squared energies",
        ("loss.energy_l2",),
        lambda weight: max(10 * weight, PENALTY),
    ),
}


def changes(fields: Fields, config: Config, remedy: str) -> dict[str, list[Any]]:
    """Returns what a remedy changes: [value, new value] by field; empty where nothing has effect.

    Args:
      fields: of the configuration's family.
      config: the configuration to be changed.
      remedy: name in ``REMEDIES``.
    """
    _, names, change = REMEDIES[remedy]
    found = {name: [config[name], change(config[name])] for name in names if name in fields}
    return {
        name: [old, new]
        for name, (old, new) in found.items()
        if old != new and declare.no_effect(fields, config, name) is None
    }


def changed(config: Config, values: dict[str, Any]) -> Config:
    """Returns a copy of ``config`` with other values of some fields, by dotted name."""
    copy = config.copy_and_resolve_references()
    copy.update_from_flattened_dict(values)
    return copy
