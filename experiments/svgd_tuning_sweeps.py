"""What the SVGD thesis's tuning study runs: settings, and sweeps of one of their fields each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

OBJECTIVES = ("literal", "corrected")
REPLACEMENTS = ("softmax", "argmax")
REFERENCE_REPLACEMENT = "in_place"


class Setting(NamedTuple):
    """One run. The smoothing is the thesis's alpha; steps are the sampler's."""

    objective: str
    replacement: str
    step_size: float
    num_particles: int
    num_steps: int
    smoothing: float
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        return (
            f"{self.objective}-{self.replacement}-step{self.step_size:g}"
            f"-particles{self.num_particles}-steps{self.num_steps}"
            f"-smoothing{self.smoothing:g}-seed{self.seed}"
        )


@dataclass(frozen=True)
class Study:
    """Sweeps of one field each, the others frozen.

    Attributes:
      values: of each swept field.
      frozen: the other fields in the sweep of a field; ``step_size`` is that of the objective.
      step_sizes: of each objective where it is not swept.
      num_updates: of the parameters, each an epoch of the ten images.
      buffer_size: of the replay buffer. Small, so that chains do continue from what was put back.
    """

    values: dict[str, tuple[float, ...]]
    frozen: dict[str, dict[str, Any]]
    step_sizes: dict[str, float]
    num_updates: int
    buffer_size: int

    def lines(self, sweep: str, objective: str) -> Iterator[Setting]:
        """The runs of one panel: every value with both replacements, one of them also in place."""
        frozen: dict[str, Any] = {"step_size": self.step_sizes[objective], **self.frozen[sweep]}
        for value in self.values[sweep]:
            for replacement in REPLACEMENTS:
                yield Setting(objective, replacement, **dict(frozen, **{sweep: value}))
        yield Setting(objective, REFERENCE_REPLACEMENT, **frozen)

    def settings(self, num_seeds: int) -> list[Setting]:
        """All runs, each once, seed by seed."""
        once = dict.fromkeys(
            setting
            for sweep in self.values
            for objective in OBJECTIVES
            for setting in self.lines(sweep, objective)
        )
        return [setting._replace(seed=seed) for seed in range(num_seeds) for setting in once]


THESIS: dict[str, Any] = {"num_particles": 43, "num_steps": 10, "smoothing": 1.0}
FULL = Study(
    # Up to 0.09 they are the thesis's; beyond, 1/n of a particle's own score is made up for.
    values={
        "step_size": (0.005, 0.01, 0.09, 1.0, 6.5, 43.0),
        "num_particles": (10, 23, 43, 64),
        "num_steps": (5, 10, 20),
        "smoothing": (1.0, 5.0, 50.0, 500.0),
    },
    frozen={
        "step_size": THESIS,
        "num_particles": THESIS,
        "num_steps": THESIS | {"num_particles": 23},
        "smoothing": THESIS,
    },
    step_sizes={"literal": 0.09, "corrected": 6.5},
    num_updates=200,
    buffer_size=430,
)
QUICK = Study(
    values={
        "step_size": (0.09, 2.0),
        "num_particles": (4,),
        "num_steps": (2,),
        "smoothing": (1.0,),
    },
    frozen={name: {"num_particles": 4, "num_steps": 2, "smoothing": 1.0} for name in FULL.values},
    step_sizes={"literal": 0.09, "corrected": 2.0},
    num_updates=4,
    buffer_size=10,
)
