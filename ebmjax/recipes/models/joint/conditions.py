"""Conditions under which the fields of a joint model have an effect."""

from collections.abc import Mapping

from ebmjax.recipes.config.declare import (
    Field,
    When,
    allow_preset,
    under,
    when_above_zero,
    when_is,
    when_set,
)

ENERGY = when_above_zero("loss.generative_weight", "an energy model")
AUGMENTED = when_set("data.augment_positives", "augmented images for p(x)")
BATCH_NORM = When(
    "batch normalisation, config.model.norm=batch or your own network's",
    lambda c: c.model.norm == "batch" or c.model.factory,
)
IN_BOX = allow_preset(when_is("sampler.box", "clamp", "reflect", "reject", what="a box"))
SCALED = when_is("sampler.buffer.start", "uniform", "gaussian")
PARTS_KEPT = when_set("sampler.buffer.num_kept", "a number of chains that are kept")
STEERED = when_set("loss.smoothing_ratio", "a ratio that the smoothing is steered to")
SGD = when_is("optimizer.name", "sgd")
STEPS_DOWN = allow_preset(when_is("optimizer.schedule", "steps"))
SAM = when_set("optimizer.rho", "SAM's radius")
MOVED = allow_preset(
    When(
        "chains, config.loss.generative_weight above 0 or config.eval.robustness.refine_steps",
        lambda c: (
            c.loss.generative_weight > 0
            or (c.eval.robustness.every != "never" and c.eval.robustness.refine_steps)
        ),
    )
)


def in_box(fields: Mapping[str, Field], *names: str) -> dict[str, Field]:
    """Returns ``fields``, of which those in ``names`` need a box."""
    return {**fields, **under({name: fields[name] for name in names}, IN_BOX)}


def needing_energy(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Returns ``fields`` with one more condition, as strict as those that they have.

    A sampler's fields also serve a classifier alone whose attacked images are refined.
    """
    made: dict[str, Field] = {}
    for name, one in fields.items():
        if name.startswith("sampler.") and not name.startswith(("sampler.num_", "sampler.buffer.")):
            made |= under({name: one}, MOVED)
            continue
        is_strict = one.when and not any(when.may_preset for when in one.when)
        made |= under({name: one}, ENERGY if is_strict else allow_preset(ENERGY))
    return made
