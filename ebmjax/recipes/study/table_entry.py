"""Writes a cell of a table over seeds."""

import statistics
from collections.abc import Sequence


def entry(
    values: Sequence[float | None],
    decimals: int,
    error: float | None = None,
    interval: Sequence[float] | None = None,
) -> str:
    """Returns mean and spread of the numbers in ``values``, and their count if not all.

    ``error`` is the test set's, ``interval`` has the ends of the mean's; each if known.
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "-"
    text = f"{statistics.mean(numbers):.{decimals}f}"
    if len(numbers) > 1:
        text += f" ± {statistics.stdev(numbers):.{decimals}f}"
    if error is not None:
        text += f" (test ± {error:.{decimals}f})"
    if interval:
        text += f" [{interval[0]:.{decimals}f}, {interval[1]:.{decimals}f}]"
    return text if len(numbers) == len(values) else f"{text} ({len(numbers)} of {len(values)})"
