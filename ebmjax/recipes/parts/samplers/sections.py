"""Fields of samplers as families declare them, from the table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ebmjax._ranges import FLAG, POSITIVE, one_of_or_function, optional
from ebmjax.recipes.config import declare
from ebmjax.recipes.config.declare import Field, When, field, when_is
from ebmjax.recipes.parts.samplers.table import LANGEVIN, SAMPLERS, SHARED


def sections(
    names: Iterable[str],
    *named_by: str,
    named: Callable[[Any], Iterable[str]] | None = None,
    changes: Mapping[str, Any] | None = None,
    on_images: bool = False,
    has_shared: bool = True,
) -> dict[str, Field]:
    """Returns the fields of samplers, ``sampler.<name>.<field>``, for a family.

    Args:
      names: samplers of the table that the family offers.
      *named_by: fields of the family that name them.
      named: function from a configuration to the samplers that it names; None: those of the fields.
      changes: values in place of the table's defaults, by dotted name ("sgld.step_size").
      on_images: whether the defaults are those for images.
      has_shared: False leaves out ``SHARED``, which the family has in another section.

    Raises:
      KeyError: if ``changes`` names a field that no section has.
    """
    left, made = dict(changes or {}), {}
    for name in names:
        entry, when = SAMPLERS[name], _when_named(name, named_by, named)
        for key, one in entry.fields.items():
            if has_shared or key not in SHARED:
                usual = entry.on_images.get(key, one.default) if on_images else one.default
                default = left.pop(f"{name}.{key}", usual)
                made[f"sampler.{name}.{key}"] = replace(one, default=default, when=(when,))
    if left:
        raise KeyError(f"no sampler here has the fields {sorted(left)}")
    return made


def _when_named(name: str, fields: Iterable[str], named: Any) -> When:
    """Returns the condition that one of the fields names a sampler."""
    conditions = [when_is(one, name) for one in fields]
    needs = " or ".join(one.needs for one in conditions)
    if named is not None:
        return When(needs, lambda config: name in named(config))
    return When(needs, lambda config: any(one.holds(config) for one in conditions))


def declare_adaptation(
    names: Iterable[str], named: Callable[[Any], Iterable[str]]
) -> dict[str, Field]:
    """Returns the fields that some samplers have besides their sections, such as those that reject.

    Args:
      names: samplers that the family offers.
      named: function from a configuration to the samplers that it names.
    """
    offered = {name: SAMPLERS[name] for name in names}

    def when(words: str, able: list[str]) -> When:
        needs = f"a sampler {words}, config.sampler.name={' or '.join(able)}"
        return When(needs, lambda config: any(name in able for name in named(config)))

    adaptable = [name for name, entry in offered.items() if entry.adapts]
    rejecting = [name for name, entry in offered.items() if entry.rejects]
    return {
        "sampler.target_acceptance": field(
            None,
            optional(POSITIVE),
            "acceptance that the step adapts to; None: fixed",
            when("whose step can adapt", adaptable),
        ),
        "sampler.allow_decoupled": field(
            False,
            FLAG,
            "let a sampler that rejects aim at another temperature than its noise's",
            when("that rejects", rejecting),
        ),
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
