"""Ends a run before its plan: a signal, at a safe point, and too many skipped steps."""

import logging
import signal
from collections.abc import Mapping
from types import FrameType
from typing import Any

from ebmjax._shown import SEE_FAQ

logger = logging.getLogger(__name__)

CAUSES = {
    1: "the loss was not finite",
    2: "the gradient was not finite",
    3: "the loss was beyond max_abs_loss",
    4: "the updated parameters were not finite",
}
"""Cause by ``skip_cause``, a metric of every step; 0 means that the step was taken."""


class DivergenceError(RuntimeError):
    """Raised after too many steps in a row without a finite update.

    Attributes:
      step: the step at which the limit of skips was reached.
      first_skipped: the step at which the skipping began.
      reason: why steps were skipped, in words; "" if unknown.
      signum: the signal that came meanwhile, or None.
    """

    def __init__(self, message: str, step: int = 0, first_skipped: int = 1, reason: str = ""):
        super().__init__(message)
        self.step, self.first_skipped, self.reason = step, first_skipped, reason
        self.signum: int | None = None

    def __str__(self) -> str:
        return f"{super().__str__()} {SEE_FAQ}"


class SkipWatch:
    """Watches the row of every step; warns at the 1st, 2nd, 4th, 8th, ... skipped step.

    Args:
      limit: number of skipped steps in a row that is a divergence.
      step: steps taken so far.
      skipped: number of skipped steps.
      consecutive_skipped: skipped steps in a row up to now.
      reason: that of an earlier sitting's watch.

    Attributes:
      divergence: error to raise once the run is saved, or None.
      reason: why the last skipped step was skipped, of several in a row the first; "" if unknown.
      is_skipping: whether the last step was skipped.
    """

    def __init__(
        self, limit: int, step: int, skipped: int, consecutive_skipped: int, reason: str = ""
    ):
        self.divergence: DivergenceError | None = None
        self.reason = reason
        self._limit, self._num_told = limit, skipped
        self._check(step, consecutive_skipped)

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        """Updates the counts with the metrics of ``step``."""
        consecutive, num_skipped = row["consecutive_skipped"], row["skipped"]
        if consecutive == 1 or (consecutive and not self.reason):
            self.reason = CAUSES.get(row.get("skip_cause", 0), "")
        if consecutive and num_skipped >= max(2 * self._num_told, 1):
            self._num_told = num_skipped
            logger.warning(
                "Step %d was skipped and changed nothing: %s. So far %d of %d steps were skipped; "
                "%d in a row end the run. " + SEE_FAQ,
                step,
                CAUSES.get(row.get("skip_cause", 0), "its update was not finite"),
                num_skipped,
                step,
                self._limit,
            )
        self._check(step, consecutive)

    def _check(self, step: int, num: int) -> None:
        """Sets ``divergence`` the first time that too many steps in a row were skipped."""
        self.is_skipping = num > 0
        if num < self._limit or self.divergence is not None:
            return
        since = f" Since step {step - num + 1}: {self.reason}." if self.reason else ""
        if num == step:
            since += " No step had one: look at your own functions and data first."
        self.divergence = DivergenceError(
            f"Training diverged: the last {num} steps, up to step {step}, had no finite update and "
            f"changed nothing.{since} The newest checkpoint holds the last finite parameters, from "
            "which a new run starts by ebmjax.training.warm_start or "
            "--config.train.start_from=FOLDER.",
            step - num + self._limit,  # also where the run goes on from a later one
            step - num + 1,
            self.reason,
        )


class StopRequest:
    """Makes SIGINT and SIGTERM only set ``signum``; a second SIGINT interrupts at once.

    Args:
      is_handling: whether signals are handled at all; else they do what the program wants.

    Attributes:
      signum: the signal that came, or None; it may change at any time.
    """

    def __init__(self, is_handling: bool = True) -> None:
        self.signum: int | None = None
        self._handled = (signal.SIGINT, signal.SIGTERM) if is_handling else ()
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopRequest":
        for signum in self._handled:
            try:
                self._previous[signum] = signal.signal(signum, self._handle)
            except ValueError:  # only the main thread may set handlers; others run without
                break
        return self

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del frame
        if self.signum is not None and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signum = signum

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
