"""The best that the evaluations of a run said while it trained."""

from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, Any]]


def over_training(rows: Rows) -> dict[str, Any]:
    """From the rows of metrics.jsonl, but for those before training; what none told is left out.

    The lowest "sample_fid" and highest "sample_is", the first FID, the highest "test_accuracy" and
    the lowest acceptance of the chains, with the steps of those that a run is judged by.
    """
    found: dict[str, Any] = {}
    fids = _told(rows, "sample_fid")
    if fids:
        first, best = fids[0], min(fids, key=lambda row: row["sample_fid"])
        found |= {"first_sample_fid": first["sample_fid"], "first_step": first["step"]}
        found |= {"best_sample_fid": best["sample_fid"], "best_step": best["step"]}
    scores = [row["sample_is"] for row in _told(rows, "sample_is")]
    if scores:
        found["best_sample_is"] = max(scores)
    accuracies = _told(rows, "test_accuracy")
    if accuracies:
        best = max(accuracies, key=lambda row: row["test_accuracy"])
        found |= {"best_test_accuracy": best["test_accuracy"], "best_accuracy_step": best["step"]}
    acceptances = [row["chain_acceptance_prob"] for row in _told(rows, "chain_acceptance_prob")]
    if acceptances:
        found["lowest_acceptance"] = min(acceptances)
    return found


def _told(rows: Rows, name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row.get(name) is not None and row["step"] > 0]
