"""Writes a study's table, table.md and table.json: means, errors and paired differences."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ebmjax
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.study.cells import Cell, Study
from ebmjax.recipes.study.reader import StudyRun


def table(study: Study, all_cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Returns, by label and column, the numbers over seeds that were run.

    None stands for a seed without the number, such as a diverged one. Beside the columns a row has,
    each where it is known:

    - "diverged", "finished", "recovered": numbers of runs.
    - "interval": ends of a 95 % interval of each column's mean, by ``interval``.
    - "test_set_error": standard error of each column's mean, because the test set is finite.
    - "difference_from": the first row whose runs keep numbers image by image, and by column the
      difference from it on the same images and common seeds, with a 95 % interval.
    """
    found: dict[str, dict[str, Any]] = {}
    images: dict[str, dict[str, Any]] = {}
    for label in study.rows:
        found[label], images[label] = _row(study, [c for c in all_cells if c.label == label])
    first = next((label for label, columns in images.items() if any(columns.values())), None)
    for label, columns in images.items():
        if first is not None and label != first:
            pairs = {
                heading: workdir.paired_difference(
                    columns[heading], images[first][heading], factor=factor
                )
                for heading, (_, factor, _) in study.columns.items()
            }
            if pairs := {heading: pair for heading, pair in pairs.items() if pair}:
                found[label]["difference_from"] = {first: pairs}
    return found


def _row(study: Study, runs: Sequence[Cell]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a row of ``table``, and by heading and seed the numbers of each image."""
    statuses = {cell.seed: cell.status for cell in runs if cell.status != "missing"}
    folders = {cell.seed: cell.folder for cell in runs if cell.status == "done"}
    numbers = {seed: StudyRun(folder).numbers() for seed, folder in folders.items()}
    row: dict[str, Any] = {
        "diverged": len(statuses) - len(numbers),
        "finished": len(numbers),
        "recovered": sum(bool(one.get("recoveries")) for one in numbers.values()),
    }
    images, errors, intervals = {}, {}, {}
    for heading, (name, factor, _) in study.columns.items():
        values = [descend(numbers.get(seed), name) for seed in statuses]
        known = [one for one in values if isinstance(one, int | float)]
        row[heading] = [factor * x if isinstance(x, int | float) else None for x in values]
        parts = {seed: workdir.read_per_image(folder, name) for seed, folder in folders.items()}
        kept = {k: (numbers[k].get("images_sha256"), one) for k, one in parts.items() if one}
        images[heading] = kept
        stacked = workdir.stack_parts([*kept.values()])
        if stacked:
            errors[heading] = abs(factor) * ebmjax.metrics.sampling_error(stacked)
        if ends := interval(known, stacked if len(kept) == len(known) else None):
            intervals[heading] = sorted(factor * end for end in ends)
    more = {"interval": intervals, "test_set_error": errors}
    return row | {name: one for name, one in more.items() if one}, images


def interval(
    values: Sequence[float], images: tuple[np.ndarray, ...] | None = None
) -> tuple[float, float] | None:
    """Returns a 95 % interval of the mean that more seeds, and more test images, would have.

    Without ``images`` it is Student's over the seeds. With them it covers both, by the variances of
    ``metrics.paired_difference``; with one seed it is of that trained model. A share of right
    answers has Wilson's interval, for as many images as would have the same variance.

    Args:
      values: the number of each seed.
      images: numbers (seeds, images) by set of images; None if runs have none.

    Returns:
      Both ends; None for a single value, or for equal ones, without images.

    Source: Wilson 1927; effective number of images, Korn & Graubard 1998.
    """
    from scipy import stats

    if not images:
        if len({*values}) < 2:
            return None
        reach = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    else:
        numbers = tuple(part.astype(float) for part in images)
        found = ebmjax.metrics.paired_difference(numbers, tuple(map(np.zeros_like, numbers)))
        reach = (found.high - found.low) / 2
    mean = float(np.mean(values))
    if images and all(part.dtype == bool for part in images) and len(images) == 1:
        variance, num_images = mean * (1 - mean), images[0].shape[1]
        ratio = reach**2 / variance if variance > 0 else stats.norm.ppf(0.975) ** 2 / num_images
        centre, reach = mean + ratio / 2, (reach**2 + ratio**2 / 4) ** 0.5
        return float((centre - reach) / (1 + ratio)), float((centre + reach) / (1 + ratio))
    return float(mean - reach), float(mean + reach)


def descend(tree: Any, name: str) -> Any:
    """Returns the value under ``name``: a number, or None."""
    for part in name.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


def write(study: Study, all_cells: Sequence[Cell], folder: Path) -> None:
    """Writes table.md and table.json, each whole or not at all."""
    found = table(study, all_cells)
    workdir.write_whole(folder / "table.md", as_markdown(study, found))
    workdir.write_whole(folder / "table.json", json.dumps(found, indent=2) + "\n")


def as_markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the table: mean and standard deviation over seeds, errors, and how runs ended.

    A number that some runs lack says how many have it, diverged ones included. The last column, if
    any run recovered, counts those that diverged on the way and finished with other settings than
    the row's (``config.train.on_divergence``). Below stand the paired differences.
    """
    ends = ["diverged", *["recovered"] * any(row.get("recovered") for row in found.values())]
    rows = []
    for label, row in found.items():
        entries = [label]
        for heading, (_, _, decimals) in study.columns.items():
            also = (row.get(name, {}).get(heading) for name in ("test_set_error", "interval"))
            entries.append(entry(row[heading], decimals, *also))
        entries += [str(row["finished"] + row["diverged"]), *(str(row[end]) for end in ends)]
        rows.append(entries)
    lines = markdown_table(["", *study.columns, "seeds", *ends], rows)
    told = {name for row in found.values() for name in row}
    if told & {"interval", "test_set_error"}:
        of_test = ', "test" the standard error of a finite test set' * ("test_set_error" in told)
        of_mean = ", [low, high] a 95 % interval of the mean" * ("interval" in told)
        lines += ["", f"± is the spread over seeds{of_test}{of_mean}."]
    return "\n".join([*lines, *_differences(study, found)]) + "\n"


def _differences(study: Study, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    pairs = {k: row["difference_from"] for k, row in found.items() if "difference_from" in row}
    if not pairs:
        return []
    (reference,) = {name for one in pairs.values() for name in one}
    columns = {label: one[reference] for label, one in pairs.items()}
    headings = [one for one in study.columns if any(one in row for row in columns.values())]
    seeds = {k: sorted({pair["seeds"] for pair in row.values()}) for k, row in columns.items()}
    rows = [
        [
            label,
            *(_difference(row.get(one), study.columns[one][2]) for one in headings),
            ", ".join(map(str, seeds[label])),
        ]
        for label, row in columns.items()
    ]
    lines = ["", f"Difference from {reference} on the same images, 95 % interval:", ""]
    lines += markdown_table(["", *headings, "seeds"], rows)
    if any(1 in one for one in seeds.values()):
        lines += ["", "With one seed an interval is of these two runs, not of two ways to train."]
    return lines


def _difference(pair: Mapping[str, Any] | None, decimals: int) -> str:
    if pair is None:
        return "-"
    number, low, high = (f"{pair[k]:.{decimals}f}" for k in ("difference", "low", "high"))
    text = f"{'+' * (pair['difference'] >= 0)}{number} ({low} to {high})"
    return text if pair["low"] > 0 or pair["high"] < 0 else f"{text}, not told apart"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    lines = (" | ".join(text.replace("|", "\\|") for text in row) for row in (headings, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return [first, f"|{'---|' * len(headings)}", *others]


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
