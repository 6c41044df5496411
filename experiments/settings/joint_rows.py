"""Rows and flags that studies of joint energy models share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ebmjax.recipes.study import make_flags

from . import joint

SCENARIOS = {
    "5 steps": "steps_5",
    "8 negatives": "negatives_8",
    "output scale x2": "scale_2",
    "output scale x0.5": "scale_half",
    "step x4": "step_4",
    "step x0.25": "step_quarter",
}
"""Scenarios other than the default, by the labels of rows."""


def exponent_rows(label: str, config: str, weighted: str, names: Iterable[str]) -> dict[str, str]:
    """Returns rows of a scenario: without weights, then by the ``names`` of exponents.

    ``config`` has no weights; ``weighted`` has them and lacks the exponent's name at its end.
    """
    return {f"{label}, exponent 0": config} | {
        f"{label}, exponent {joint.EXPONENTS[name]:g}": f"{weighted}{name}" for name in names
    }


PARTS: dict[str, dict[str, tuple[Any, Any]]] = {
    "informative start": {"sampler.buffer.start": ("informative", "uniform")},
    "proximal step": {"sampler.name": ("proximal_sgld", "sgld")},
    "box of the data": {"sampler.low": (-1.0, -1.2), "sampler.high": (1.0, 1.2)},
    "SAM": {"optimizer.rho": (0.05, None)},
    "noiseless images": {"data.noise_scale": (0.0, 0.03)},
    "crops for the labels": {"data.crop_padding": (1, 0), "data.augment_positives": (False, True)},
}
"""Fields by which SADA-JEM differs from JEM on the digits: one's value and the other's."""

# Draws of the informative law score like real images, and so do chains that stay there. From
# uniform noise a score shows what chains do.
(UNIFORM,) = make_flags({"sampler.buffer.start": "uniform"})


def flags_of(part: Mapping[str, tuple[Any, Any]], *, is_jem: bool) -> tuple[str, ...]:
    """Returns JEM's or SADA-JEM's values of a part of their difference, as flags."""
    return make_flags({name: values[is_jem] for name, values in part.items()})


def rows_by_parts(
    jem: Sequence[str], sadajem: Sequence[str], parts: Mapping[str, Mapping[str, tuple[Any, Any]]]
) -> dict[str, list[str]]:
    """Returns rows that add each part to JEM, then rows that take each part from SADA-JEM."""
    return {
        f"JEM, {name}": [*jem, *flags_of(part, is_jem=False)] for name, part in parts.items()
    } | {
        f"SADA-JEM, without {name}": [*sadajem, *flags_of(part, is_jem=True)]
        for name, part in parts.items()
    }


ONCE = make_flags({"train.checkpoint_every_epochs": 40, "eval.every_epochs": 40})
"""Flags of runs of 40 epochs that are saved and measured at their end alone."""


def skip(*evaluations: str) -> tuple[str, ...]:
    """Returns flags that leave out evaluations; without names those beside the classifier's."""
    names = evaluations or ("ood", "robustness", "generation", "landscape")
    return make_flags({f"eval.{name}.every": "never" for name in names})
