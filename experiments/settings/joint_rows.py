"""Rows and flags that studies of joint energy models share."""

from collections.abc import Iterable

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


# Draws of the informative law score like real images, and so do chains that stay there. From
# uniform noise a score shows what chains do.
(UNIFORM,) = make_flags({"sampler.buffer.start": "uniform"})


ONCE = make_flags({"train.checkpoint_every_epochs": 40, "evals.every_epochs": 40})
"""Flags of runs of 40 epochs that are saved and measured at their end alone."""


def skip(*evaluations: str) -> tuple[str, ...]:
    """Returns flags that leave out evaluations; without names those beside the classifier's."""
    names = evaluations or ("ood", "robustness", "generation", "landscape")
    return make_flags({f"evals.{name}.every": "never" for name in names})
