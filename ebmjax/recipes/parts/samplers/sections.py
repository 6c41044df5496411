"""Fields of samplers as families declare them, from the table."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ebmjax._ranges import FLAG, one_of_or_function
from ebmjax.recipes.config import declare
from ebmjax.recipes.config.declare import Field, Part, When, field, when_is
from ebmjax.recipes.parts.samplers.table import LANGEVIN, SAMPLERS, SHARED


def sections(
    names: Iterable[str],
    *named_by: str,
    changes: Mapping[str, Any] | None = None,
    on_images: bool = False,
    has_shared: bool = True,
) -> dict[str, Field]:
    """Returns the fields of samplers, ``sampler.<name>.<field>``, for a family.

    Args:
      names: samplers of the table that the family offers.
      *named_by: fields of the family that name them.
      changes: values in place of the table's defaults, by dotted name ("sgld.step_size").
      on_images: whether the defaults are those for images.
      has_shared: False leaves out ``SHARED``, which the family has in another section.

    Raises:
      KeyError: if ``changes`` names a field that no section has.
    """
    left, made = dict(changes or {}), {}
    for name in names:
        entry, part = SAMPLERS[name], Part(f"sampler.{name}", _when_named(name, named_by))
        for key, one in entry.fields.items():
            if has_shared or key not in SHARED:
                usual = entry.on_images.get(key, one.default) if on_images else one.default
                default = left.pop(f"{name}.{key}", usual)
                made[f"sampler.{name}.{key}"] = replace(one, default=default, part=part)
    if left:
        raise KeyError(f"no sampler here has the fields {sorted(left)}")
    return made


def _when_named(name: str, fields: Iterable[str]) -> When:
    """Returns the condition that one of the fields names a sampler."""
    conditions = [when_is(one, name) for one in fields]
    needs = " or ".join(one.needs for one in conditions)
    return When(needs, lambda config: any(one.holds(config) for one in conditions))


def declare_decoupling(names: Iterable[str], named_by: str) -> dict[str, Field]:
    """Returns the field that lets a sampler that rejects aim at any temperature."""
    rejecting = [name for name in names if SAMPLERS[name].rejects]
    return {
        "sampler.allow_decoupled": field(
            False,
            FLAG,
            "let a sampler that rejects aim at another temperature than its noise's",
            when_is(named_by, *rejecting, what="a sampler that rejects"),
        )
    }


def declare_section(
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
    return declare.defaults(SAMPLERS[name].fields).to_dict()
