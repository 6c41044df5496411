"""The first and the best values of the numbers monitored during training."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

MetricRows = Sequence[dict[str, Any]]

NUM_LAST = 20

BESIDE = (
    "sample_fid_error",
    "start_fid",
    "start_fid_error",
    "fid_minus_starts",
    "fid_minus_starts_low",
    "fid_minus_starts_high",
    "gaussian_fid",
    "test_images_fid",
)
"""Numbers that are reported beside the best FID, of the same step."""

# Numbers that judge a run: name, best of them, and name for their steps.
JUDGED: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("sample_fid", min, ""),
    ("test_accuracy", max, "accuracy_"),
    ("density_tv", min, "density_"),
)


def over_training(rows: MetricRows) -> dict[str, Any]:
    """Returns numbers from the rows of metrics.jsonl after step 0; leaves out missing ones.

    They are the first and the best "sample_fid", "test_accuracy" and "density_tv" (points) with
    their steps. They also are the highest "sample_is", the lowest acceptance of the chains, and the
    largest loss of either sign. ``BESIDE`` stand beside the best FID, and "start_is" beside the
    best "sample_is". "last" has means over the last ``NUM_LAST`` rows of training, for numbers that
    all these rows have.
    """
    found: dict[str, Any] = {}
    for name, best_of, prefix in JUDGED:
        if judged := _rows_with(rows, name):
            first, best = judged[0], best_of(judged, key=itemgetter(name))
            found |= {f"first_{name}": first[name], f"first_{prefix}step": first["step"]}
            found |= {f"best_{name}": best[name], f"best_{prefix}step": best["step"]}
            if name == "sample_fid":
                found |= {beside: best[beside] for beside in BESIDE if beside in best}
    if scored := _rows_with(rows, "sample_is"):
        best = max(scored, key=itemgetter("sample_is"))
        found["best_sample_is"] = best["sample_is"]
        if "start_is" in best:
            found["start_is"] = best["start_is"]
    if moved := _rows_with(rows, "chain_acceptance_prob"):
        found["lowest_acceptance"] = min(row["chain_acceptance_prob"] for row in moved)
    if trained := _rows_with(rows, "loss"):
        found["largest_loss"] = max(abs(row["loss"]) for row in trained)
        found["last"] = _means(trained[-NUM_LAST:])
    return found


def _means(rows: MetricRows) -> dict[str, float]:
    """Returns means of the numbers that all of ``rows`` have."""
    names = [name for name, value in rows[0].items() if isinstance(value, int | float)]
    shared = [name for name in names if all(row.get(name) is not None for row in rows)]
    return {name: sum(row[name] for row in rows) / len(rows) for name in shared if name != "step"}


def _rows_with(rows: MetricRows, name: str) -> list[dict[str, Any]]:
    """Returns the rows of training that have such a number."""
    return [row for row in rows if isinstance(row.get(name), int | float) and row["step"] > 0]
