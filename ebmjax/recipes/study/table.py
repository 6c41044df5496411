"""Columns that many studies have, and a study's table: means, intervals, paired differences."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ebmjax
from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.evaluators.result_tables import with_interval
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.study.cells import Cell, Study

Columns = dict[str, tuple[str, float, int]]

COLUMNS: Columns = {
    "accuracy, %": ("classification.accuracy", 100.0, 1),
    "ECE, %": ("classification.ece", 100.0, 1),
    "NLL, nats": ("classification.nll", 1.0, 3),
    "energy of samples - of data, nats": ("energy_gap", 1.0, 2),
    "acceptance, end of training": ("chain_acceptance_prob", 1.0, 3),
    "distance travelled": ("chain_displacement", 1.0, 5),
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 3),
    "largest loss": ("over_training.largest_loss", 1.0, 1),
    "skipped steps": ("skipped", 1.0, 0),
    "seconds of training": ("run_seconds", 1.0, 0),
}
"""Columns by heading, each as in ``Study.columns``."""

WORDS = {"buffer": "buffer", "fresh": "fresh chains", "short": "chains as in training"}
"""Sets of samples by their names in evaluation.json."""


def pick_columns(*headings: str) -> Columns:
    """Returns those of ``COLUMNS`` with these headings."""
    return {heading: COLUMNS[heading] for heading in headings}


def auroc_columns(sets: Mapping[str, str], *scores: str) -> Columns:
    """Returns a column for each score and set of evaluation.json; ``sets`` is heading to name."""
    return {
        f"AUROC {score.replace('_', ' ')} / {words}": (f"ood.sets.{name}.{score}.auroc", 1.0, 3)
        for score in scores
        for words, name in sets.items()
    }


def fid_columns(*sets: str) -> Columns:
    """Returns columns of FID for sets of samples in ``WORDS``, of test images and of Gaussians.

    Each set has its standard error over images, its starts, and the difference with the upper end
    of its 95 % interval: below 0 the chains improved on their starts. Sets of chains also have the
    RMS displacement of these.
    """
    found: Columns = {}
    for name in sets:
        words, place = WORDS[name], f"generation.{name}"
        found |= {
            f"FID ({{extractor}}), {words}": (f"{place}.fid", 1.0, 1),
            f"error of {words}": (f"{place}.fid_error", 1.0, 1),
            f"starts of {words}": (f"{place}.starts.fid", 1.0, 1),
            f"{words} minus starts": (f"{place}.minus_starts.difference", 1.0, 1),
            f"{words} minus starts, at most": (f"{place}.minus_starts.high", 1.0, 1),
        }
        if name != "buffer":
            found[f"RMS displacement of {words}"] = (f"{place}.rms_displacement", 1.0, 3)
    found["FID, class Gaussians"] = ("generation.gaussian.fid", 1.0, 1)
    found["FID, test images"] = ("generation.test_images.fid", 1.0, 1)
    return found


def table(study: Study, all_cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Returns, by label and column, the numbers over seeds that were run.

    None stands for a seed without the number, such as a diverged one. A row also has the numbers of
    runs that are "finished", "diverged" and "recovered", and "interval", by column the ends of
    ``interval`` if they are known. Rows on the same images as the first that keeps numbers image by
    image have "difference", by column the paired difference from it.
    """
    found: dict[str, dict[str, Any]] = {}
    first, theirs = "", {}
    for label in study.rows:
        ended = [cell for cell in all_cells if cell.label == label and cell.status != "missing"]
        done = [cell for cell in ended if cell.status == "done"]
        numbers = {cell.seed: flatten(cell.numbers()) for cell in done}
        found[label] = row = {
            "finished": len(done),
            "diverged": len(ended) - len(done),
            "recovered": sum(bool(one.get("recoveries")) for one in numbers.values()),
            "interval": {},
        }
        images: dict[str, Any] = {}
        for heading, (name, factor, _) in study.columns.items():
            values = [numbers.get(cell.seed, {}).get(name) for cell in ended]
            known = [one for one in values if isinstance(one, int | float) and abs(one) < 1e300]
            row[heading] = [factor * one if one in known else None for one in values]
            images[heading] = {
                cell.seed: (str(numbers[cell.seed].get("images_sha256")), parts)
                for cell in done
                if (parts := run_folder.read_per_image(cell.folder, name))
            }
            kept = [*images[heading].values()]
            stacked = run_folder.stack_parts(kept) if len(kept) == len(known) else None
            if ends := interval(known, stacked):
                row["interval"][heading] = sorted(factor * end for end in ends)
            both = images[heading], theirs.get(heading, {})
            if pair := run_folder.paired_difference(*both, factor=factor):
                row.setdefault("difference", {})[heading] = pair | {"from": first}
        if not first and any(images.values()):
            first, theirs = label, images
    return found


def interval(
    values: Sequence[float], images: tuple[np.ndarray, ...] | None = None
) -> tuple[float, float] | None:
    """Returns a 95 % interval of the mean that more seeds, and more test images, would have.

    Without ``images`` it is Student's over ``values``, one a seed; None for one value or equal
    ones. With ``images``, numbers (seeds, images) by set of images, it covers both, by the
    variances of ``metrics.paired_difference``; with one seed it is of that trained model. A share
    of right answers has Wilson's interval, for as many images as would have the same variance.

    Source: Wilson 1927; effective number of images, Korn & Graubard 1998.
    """
    from scipy import stats

    mean = float(np.mean(values)) if values else 0.0
    if images:
        numbers = tuple(part.astype(float) for part in images)
        found = ebmjax.metrics.paired_difference(numbers, tuple(map(np.zeros_like, numbers)))
        reach = (found.high - found.low) / 2
        if len(images) == 1 and images[0].dtype == bool:
            variance, num_images = mean * (1 - mean), images[0].shape[1]
            ratio = reach**2 / variance if variance else stats.norm.ppf(0.975) ** 2 / num_images
            reach = (reach**2 + ratio**2 / 4) ** 0.5 / (1 + ratio)
            mean = (mean + ratio / 2) / (1 + ratio)
    elif len({*values}) > 1:
        reach = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    else:
        return None
    return float(mean - reach), float(mean + reach)


def write(study: Study, all_cells: Sequence[Cell], folder: Path) -> None:
    """Writes table.md and table.json, each whole or not at all."""
    found = table(study, all_cells)
    run_folder.write_whole(folder / "table.md", as_markdown(study, found))
    run_folder.write_whole(folder / "table.json", json.dumps(found, indent=2) + "\n")


def as_markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the table: mean, standard deviation over seeds, 95 % interval; how runs ended.

    A number that some runs lack says how many have it. "recovered" counts runs that diverged and
    finished with other settings than the row's (``config.train.on_divergence``). Below stand the
    paired differences.
    """
    rows, pairs, ends, reference = [], [], ("finished", "diverged", "recovered"), ""
    for label, row in found.items():
        entries = [
            entry(row[heading], decimals, row["interval"].get(heading))
            for heading, (_, _, decimals) in study.columns.items()
        ]
        rows.append([label, *entries, *(str(row[end]) for end in ends)])
        if "difference" in row:
            pairs.append([label, *(_difference(row["difference"].get(k)) for k in study.columns)])
            reference = next(iter(row["difference"].values()))["from"]
    lines = markdown_table(["", *study.columns, *ends], rows)
    lines += ["", "± is the spread over seeds, [low, high] a 95 % interval of the mean."]
    if pairs:
        lines += ["", f"Difference from {reference} on the same images, 95 % interval:", ""]
        lines += markdown_table(["", *study.columns], pairs)
    return "\n".join(lines) + "\n"


def _difference(pair: Mapping[str, Any] | None) -> str:
    if pair is None:
        return "-"
    text = with_interval(pair["difference"], pair["low"], pair["high"])
    text += ", not told apart" * (pair["low"] <= 0 <= pair["high"])
    return text + ", one seed" * (pair["seeds"] == 1)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    lines = (" | ".join(text.replace("|", "\\|") for text in row) for row in (headings, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return [first, f"|{'---|' * len(headings)}", *others]


def entry(
    values: Sequence[float | None], decimals: int, ends: Sequence[float] | None = None
) -> str:
    """Returns mean and spread of the numbers in ``values``, the ends, and the count if not all."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "-"
    text = f"{statistics.mean(numbers):.{decimals}f}"
    if len(numbers) > 1:
        text += f" ± {statistics.stdev(numbers):.{decimals}f}"
    if ends:
        text += f" [{ends[0]:.{decimals}f}, {ends[1]:.{decimals}f}]"
    return text if len(numbers) == len(values) else f"{text} ({len(numbers)} of {len(values)})"
