"""Runs of the SVGD thesis's tuning study: settings, and sweeps of one of their fields each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

OBJECTIVES = ("literal", "corrected")
REPLACEMENTS = ("softmax", "argmax")
REFERENCE_REPLACEMENT = "in_place"


class Setting(NamedTuple):
    """One run. The smoothing is the thesis's alpha; steps and bandwidth are the sampler's."""

    objective: str
    replacement: str
    step_size: float
    num_particles: int
    num_steps: int
    smoothing: float
    bandwidth: str | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        bandwidth = f"-bandwidth_{self.bandwidth}" if self.bandwidth else ""
        return (
            f"{self.objective}-{self.replacement}-step{self.step_size:g}"
            f"-particles{self.num_particles}-steps{self.num_steps}"
            f"-smoothing{self.smoothing:g}{bandwidth}-seed{self.seed}"
        )


class Sweep(NamedTuple):
    """Values of one field of ``Setting``, and the others; the step size is that of the objective
    where it is neither."""

    field: str
    values: tuple[float, ...]
    frozen: dict[str, Any]


@dataclass(frozen=True)
class Study:
    """Sweeps of one field each, the others frozen.

    Attributes:
      sweeps: by name.
      step_sizes: of each objective where it is not swept.
      num_updates: of the parameters, each an epoch of the ten images.
      buffer_size: of the replay buffer. Small, so that chains do continue from what was put back.
    """

    sweeps: dict[str, Sweep]
    step_sizes: dict[str, float]
    num_updates: int
    buffer_size: int

    def lines(self, sweep: str, objective: str) -> Iterator[Setting]:
        """The runs of one panel: every value with both replacements, one of them also in place."""
        field, values, others = self.sweeps[sweep]
        frozen: dict[str, Any] = {"step_size": self.step_sizes[objective], **others}
        for value in values:
            for replacement in REPLACEMENTS:
                yield Setting(objective, replacement, **dict(frozen, **{field: value}))
        yield Setting(objective, REFERENCE_REPLACEMENT, **frozen)

    def settings(self, num_seeds: int) -> list[Setting]:
        """All runs, each once, seed by seed."""
        once = dict.fromkeys(
            setting
            for sweep in self.sweeps
            for objective in OBJECTIVES
            for setting in self.lines(sweep, objective)
        )
        return [setting._replace(seed=seed) for seed in range(num_seeds) for setting in once]


THESIS: dict[str, Any] = {
    "num_particles": 43,
    "num_steps": 10,
    "smoothing": 1.0,
    "bandwidth": None,
}
# Up to 0.09 they are the thesis's; beyond, 1/n of a particle's own score is made up for.
STEP_SIZES = (0.005, 0.01, 0.09, 1.0, 6.5, 43.0)
FULL = Study(
    sweeps={
        "step_size": Sweep("step_size", STEP_SIZES, THESIS),
        "num_particles": Sweep("num_particles", (10, 23, 43, 64), THESIS),
        "num_steps": Sweep("num_steps", (5, 10, 20), THESIS | {"num_particles": 23}),
        "smoothing": Sweep("smoothing", (1.0, 5.0, 50.0, 500.0), THESIS),
        # The other reading of the thesis's median rule.
        "step_size_median": Sweep("step_size", STEP_SIZES, THESIS | {"bandwidth": "median"}),
    },
    step_sizes={"literal": 0.09, "corrected": 6.5},
    num_updates=200,
    buffer_size=430,
)
FEW: dict[str, Any] = {"num_particles": 4, "num_steps": 2, "smoothing": 1.0, "bandwidth": None}
QUICK = Study(
    sweeps={
        "step_size": Sweep("step_size", (0.09, 2.0), FEW),
        "num_particles": Sweep("num_particles", (4,), FEW),
        "num_steps": Sweep("num_steps", (2,), FEW),
        "smoothing": Sweep("smoothing", (1.0,), FEW),
    },
    step_sizes={"literal": 0.09, "corrected": 2.0},
    num_updates=4,
    buffer_size=10,
)
