"""Judges a run's health by its own history, so that it can go back to a healthy checkpoint."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ebmjax._shown import SEE_FAQ

logger = logging.getLogger(__name__)

NUM_ENTRIES = 200
"""Entries of the history of a whole run."""

MIN_ENTRIES = 10
"""Entries that a judgement needs; before, a run counts as healthy."""

NUM_RECENT = 20
"""Steps, at most, whose median is judged."""

LIMIT = 3.5 * 1.4826
"""Half width of the band, in median absolute deviations: 3.5 standard deviations of a Gaussian, the
limit that Iglewicz and Hoaglin (How to detect and handle outliers, 1993) recommend."""

LEAST = 1.0
"""Least half width of the band: differences below one nat are small, whatever the run."""


class Health:
    """Watches one number of a run's rows: its gap of energies or, without one, its loss.

    The number is healthy while the median of its last steps is within a band around the median of
    the run's history. The history holds such a median for every 200th part of the run, also of sick
    ones: so a lasting change counts as healthy once half of the run is beyond it. Two sick entries
    in a row log a warning, and so does every doubling of their number.

    Args:
      total_steps: of the run.
      found: what ``describe`` returned for the checkpoint that the run goes on from, or None.
    """

    def __init__(self, total_steps: int, found: Mapping[str, Any] | None = None):
        found = found or {}
        self._interval = max(1, total_steps // NUM_ENTRIES)
        self._name: str = found.get("name", "")
        self._history: list[float] = list(found.get("history", []))
        self._recent: list[float | None] = list(found.get("recent", []))
        # Sick entries: all, those in a row up to now, and those of the last warning.
        self._num_sick, self._in_a_row, self._num_told = found.get("num_sick", (0, 0, 0))

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        """Takes the row of ``step``; of several repeats or models the median counts."""
        self._name = self._name or next((n for n in row if n.endswith("_gap")), "loss")
        value = float(np.median(np.asarray(row[self._name], float)))
        self._recent.append(value if np.isfinite(value) else None)
        del self._recent[: -min(self._interval, NUM_RECENT)]
        if step % self._interval:
            return
        is_sick = not self.is_healthy
        self._num_sick += is_sick
        self._in_a_row = (self._in_a_row + 1) * is_sick
        if self._in_a_row > 1 and self._num_sick >= 2 * self._num_told:
            self._num_told = self._num_sick
            self._warn(step)
        if (value := self._value()) is not None:
            self._history.append(value)

    @property
    def is_healthy(self) -> bool:
        """Returns whether the last steps are in the band."""
        if len(self._history) < MIN_ENTRIES:
            return True
        value, (centre, width) = self._value(), self._band()
        return value is not None and abs(value - centre) <= width

    def describe(self) -> dict[str, Any]:
        """Returns what judges a checkpoint, and what a later sitting goes on with, for JSON."""
        centre, width = self._band() if len(self._history) >= MIN_ENTRIES else (None, None)
        return {
            "name": self._name,
            "value": self._value(),
            "centre": centre,
            "width": width,
            "is_healthy": self.is_healthy,
            "history": list(self._history),
            "recent": list(self._recent),
            "num_sick": [self._num_sick, self._in_a_row, self._num_told],
        }

    def _value(self) -> float | None:
        """Returns the median of the last steps; None where half of them are not finite."""
        finite = [value for value in self._recent if value is not None]
        return float(np.median(finite)) if 2 * len(finite) > len(self._recent) else None

    def _band(self) -> tuple[float, float]:
        history = np.asarray(self._history)
        centre = float(np.median(history))
        return centre, max(LEAST, LIMIT * float(np.median(np.abs(history - centre))))

    def _warn(self, step: int) -> None:
        if self._name == "loss":  # of any training; a falling loss may also leave its band
            return
        value, (centre, width) = self._value(), self._band()
        logger.warning(
            "%s is %s at step %d, outside of %.3g +- %.3g, where it has been: the run may be "
            "diverging. A recovery would go back to a checkpoint before. " + SEE_FAQ,
            self._name,
            "not finite" if value is None else f"{value:.3g}",
            step,
            centre,
            width,
        )
