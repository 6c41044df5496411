"""Adds to the means in a study's table: the test set's error, and paired differences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import ebmjax
from ebmjax.recipes.core import per_image
from ebmjax.recipes.core.per_image import Parts
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import Cell

Run = tuple[Any, Parts]
"""Images by their digest, and a number of each image."""


def add_errors(
    study: Study, all_cells: Sequence[Cell], found: Mapping[str, dict[str, Any]]
) -> None:
    """Adds errors to the rows of ``found`` whose runs keep numbers image by image.

    "test_set_error" has the standard error of each column's mean, because the test set is finite.
    "difference_from" names the first row with such runs. By column it has the difference from that
    row on the same images and common seeds, with a 95 % interval over images and seeds.
    """
    rows = {label: _runs(study, all_cells, label) for label in study.rows}
    first = next((label for label, columns in rows.items() if any(columns.values())), None)
    for label, columns in rows.items():
        errors, pairs = {}, {}
        for heading, (_, factor, _) in study.columns.items():
            runs = columns[heading]
            if _fits(list(runs.values())):
                errors[heading] = abs(factor) * ebmjax.metrics.sampling_error(
                    _stacked([*runs.values()])
                )
            if first not in (None, label):
                pair = _difference(runs, rows[first][heading], factor)
                pairs |= {heading: pair} if pair else {}
        found[label].update({"test_set_error": errors} if errors else {})
        found[label].update({"difference_from": {first: pairs}} if pairs else {})


def markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the lines below a table: how to read its errors, and the paired differences."""
    if not any("test_set_error" in row for row in found.values()):
        return []
    lines = ["", '± is the spread over seeds, "test" the standard error of a finite test set.']
    pairs = {
        label: next(iter(row["difference_from"].items()))
        for label, row in found.items()
        if "difference_from" in row
    }
    if not pairs:
        return lines
    reference = next(name for name, _ in pairs.values())
    headings = [h for h in study.columns if any(h in columns for _, columns in pairs.values())]
    lines += ["", f"Difference from {reference} on the same images, 95 % interval:", ""]
    escaped = [heading.replace("|", "\\|") for heading in headings]
    lines += ["| " + " | ".join(["", *escaped, "seeds"]) + " |", "|---" * (len(headings) + 2) + "|"]
    for label, (_, columns) in pairs.items():
        entries = [_entry(columns.get(h), study.columns[h][2]) for h in headings]
        seeds = sorted({pair["seeds"] for pair in columns.values()})
        lines.append("| " + " | ".join([label, *entries, ", ".join(map(str, seeds))]) + " |")
    if any(pair["seeds"] == 1 for _, columns in pairs.values() for pair in columns.values()):
        lines += ["", "With one seed an interval is of these two runs, not of two ways to train."]
    return lines


def _runs(study: Study, all_cells: Sequence[Cell], label: str) -> dict[str, dict[int, Run]]:
    """Returns, by heading and seed, the numbers of a row's finished runs."""
    done = [cell for cell in all_cells if cell.label == label and cell.status == "done"]
    digests = {cell.seed: cell.numbers().get("images_sha256") for cell in done}
    found: dict[str, dict[int, Run]] = {}
    for heading, (name, _, _) in study.columns.items():
        found[heading] = {
            cell.seed + repeat: (digests[cell.seed], parts)
            for cell in done
            for repeat, parts in enumerate(per_image.read(cell.folder, name, cell.repeats))
            if parts is not None
        }
    return found


def _fits(runs: Sequence[Run]) -> bool:
    """Returns whether there are runs, all on the same images."""
    images = {(digest, *((name, len(x)) for name, x in parts.items())) for digest, parts in runs}
    return len(images) == 1


def _stacked(runs: Sequence[Run]) -> tuple[np.ndarray, ...]:
    """Returns (seeds, images) of each part."""
    return tuple(np.stack([parts[name] for _, parts in runs]) for name in runs[0][1])


def _difference(
    ours: Mapping[int, Run], theirs: Mapping[int, Run], factor: float
) -> dict[str, Any] | None:
    """Returns the paired difference over common seeds; None without any on the same images."""
    seeds = [seed for seed in ours if seed in theirs]
    both = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
    if not _fits([*both[0], *both[1]]):
        return None
    found = ebmjax.metrics.paired_difference(*(_stacked(runs) for runs in both))
    low, high = sorted([factor * found.low, factor * found.high])
    difference = factor * found.difference
    return {"difference": difference, "low": low, "high": high, "seeds": len(seeds)}


def _entry(pair: Mapping[str, Any] | None, decimals: int) -> str:
    if pair is None:
        return "-"
    text = (
        f"{pair['difference']:+.{decimals}f} "
        f"({pair['low']:.{decimals}f} to {pair['high']:.{decimals}f})"
    )
    return text if pair["low"] > 0 or pair["high"] < 0 else f"{text}, not told apart"
