"""Fields of samplers as families declare them, from the table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ebmjax.recipes.config.declare import Field, When, chosen, field, waiting
from ebmjax.recipes.config.ranges import (
    one_of_or_function,
)
from ebmjax.recipes.parts.samplers.table import LANGEVIN, SAMPLERS


def rejecting(names: Iterable[str]) -> list[str]:
    """Returns those of the samplers that take moves back."""
    return [name for name in names if SAMPLERS[name].rejects]


def sections(
    names: Iterable[str],
    when: Callable[[str], When],
    changes: Mapping[str, Any] | None = None,
    without: Iterable[str] = (),
    on_images: bool = False,
) -> dict[str, Field]:
    """Returns the fields of samplers, ``sampler.<name>.<field>``, as a family declares them.

    Args:
      names: names in the table.
      when: name of a sampler to the condition that a configuration uses it.
      changes: values in place of the table's defaults, by dotted name ("sgld.step_size").
      without: fields to leave out.
      on_images: whether the defaults are those for images.

    Raises:
      KeyError: if ``changes`` names a field that no section has.
    """
    left, made = dict(changes or {}), {}
    for name in names:
        fields = {k: v for k, v in SAMPLERS[name].fields.items() if k not in set(without)}
        for key, one in _flat(fields).items():
            dotted = f"{name}.{key}"
            usual = SAMPLERS[name].on_images.get(key, one.default) if on_images else one.default
            default = left.pop(dotted, usual)
            conditions = (*one.when, waiting(when(name)))
            made[f"sampler.{dotted}"] = replace(one, default=default, when=conditions)
    if left:
        raise KeyError(f"no sampler here has the fields {sorted(left)}")
    return made


def _flat(fields: Mapping[str, Any]) -> dict[str, Field]:
    """Returns fields by dotted name; those of a kernel need that kernel."""
    made: dict[str, Field] = {}
    for key, one in fields.items():
        if isinstance(one, Field):
            made[key] = one
            continue
        used = waiting(chosen("sampler.blackjax.kernel", key))
        made |= {f"{key}.{k}": replace(v, when=(*v.when, used)) for k, v in one.items()}
    return made


def shared(
    section: str, names: Iterable[str], step_size: float, text: str = "sampler"
) -> dict[str, Field]:
    """Returns fields of one section for any sampler: its name, and what all have in common."""
    return {
        f"{section}.name": field("sgld", one_of_or_function(*names), text),
        **{f"{section}.{key}": one for key, one in LANGEVIN.items()},
        f"{section}.step_size": replace(LANGEVIN["step_size"], default=step_size),
    }


def defaults(name: str) -> dict[str, Any]:
    """Returns the table's values of the hyperparameters of a sampler."""

    def plain(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {k: plain(f) if isinstance(f, Mapping) else f.default for k, f in fields.items()}

    return plain(SAMPLERS[name].fields)
