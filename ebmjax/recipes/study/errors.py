"""Adds to the means in a study's table: errors, intervals and paired differences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import ebmjax
from ebmjax.recipes.folder import per_image
from ebmjax.recipes.folder.per_image import RunParts, difference, fits, stack_parts
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import Cell


def add_errors(
    study: Study, all_cells: Sequence[Cell], found: Mapping[str, dict[str, Any]]
) -> None:
    """Adds intervals to the rows of ``found``, and errors where runs keep numbers image by image.

    "interval" has a 95 % interval of each column's mean: see ``interval``. "test_set_error" has the
    standard error of each column's mean, because the test set is finite. "difference_from" names
    the first row with such runs. By column it has the difference from that row on the same images
    and common seeds, with a 95 % interval over images and seeds.
    """
    rows = {label: _runs(study, all_cells, label) for label in study.rows}
    first = next((label for label, columns in rows.items() if any(columns.values())), None)
    for label, columns in rows.items():
        errors, pairs, intervals = {}, {}, {}
        for heading, (_, factor, _) in study.columns.items():
            runs = columns[heading]
            values = [value / factor for value in found[label][heading] if value is not None]
            images = stack_parts([*runs.values()]) if fits([*runs.values()]) else None
            if images:
                errors[heading] = abs(factor) * ebmjax.metrics.sampling_error(images)
            every = images if images and len(runs) == len(values) else None
            ends = interval(values, every)
            if ends:
                intervals[heading] = sorted(factor * end for end in ends)
            if first not in (None, label):
                pair = difference(runs, rows[first][heading], factor=factor)
                pairs |= {heading: pair} if pair else {}
        found[label].update({"interval": intervals} if intervals else {})
        found[label].update({"test_set_error": errors} if errors else {})
        found[label].update({"difference_from": {first: pairs}} if pairs else {})


def interval(
    values: Sequence[float],
    images: tuple[np.ndarray, ...] | None = None,
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
        zeros = tuple(map(np.zeros_like, numbers))
        found = ebmjax.metrics.paired_difference(numbers, zeros)
        reach = (found.high - found.low) / 2
    mean = float(np.mean(values))
    if images and all(part.dtype == bool for part in images) and len(images) == 1:
        variance, num_images = mean * (1 - mean), images[0].shape[1]
        ratio = reach**2 / variance if variance > 0 else stats.norm.ppf(0.975) ** 2 / num_images
        centre, reach = mean + ratio / 2, (reach**2 + ratio**2 / 4) ** 0.5
        return float((centre - reach) / (1 + ratio)), float((centre + reach) / (1 + ratio))
    return float(mean - reach), float(mean + reach)


def markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the lines below a table: how to read its errors, and the paired differences."""
    told = {name for row in found.values() for name in row}
    if not told & {"interval", "test_set_error"}:
        return []
    of_test = ', "test" the standard error of a finite test set' * ("test_set_error" in told)
    of_mean = ", [low, high] a 95 % interval of the mean" * ("interval" in told)
    lines = ["", f"± is the spread over seeds{of_test}{of_mean}."]
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
    lines += [line_of(["", *headings, "seeds"]), "|---" * (len(headings) + 2) + "|"]
    for label, (_, columns) in pairs.items():
        entries = [_entry(columns.get(h), study.columns[h][2]) for h in headings]
        seeds = sorted({pair["seeds"] for pair in columns.values()})
        lines.append(line_of([label, *entries, ", ".join(map(str, seeds))]))
    if any(pair["seeds"] == 1 for _, columns in pairs.values() for pair in columns.values()):
        lines += ["", "With one seed an interval is of these two runs, not of two ways to train."]
    return lines


def line_of(texts: Iterable[str]) -> str:
    """Returns a line of a Markdown table."""
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _runs(study: Study, all_cells: Sequence[Cell], label: str) -> dict[str, dict[int, RunParts]]:
    """Returns, by heading and seed, the numbers of a row's finished runs."""
    done = [cell for cell in all_cells if cell.label == label and cell.status == "done"]
    digests = {cell.seed: cell.numbers().get("images_sha256") for cell in done}
    found: dict[str, dict[int, RunParts]] = {}
    for heading, (name, _, _) in study.columns.items():
        found[heading] = {
            cell.seed: (digests[cell.seed], parts)
            for cell in done
            if (parts := per_image.read(cell.folder, name)) is not None
        }
    return found


def _entry(pair: Mapping[str, Any] | None, decimals: int) -> str:
    if pair is None:
        return "-"
    text = (
        f"{pair['difference']:+.{decimals}f} "
        f"({pair['low']:.{decimals}f} to {pair['high']:.{decimals}f})"
    )
    return text if pair["low"] > 0 or pair["high"] < 0 else f"{text}, not told apart"
