"""Writes a study's table: table.md and table.json."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebmjax.recipes.folder.workdir import write_whole
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.errors import add_errors, line_of, markdown


def table(study: Study, all_cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Returns, by label and column, the numbers over seeds that were run.

    None stands for a seed without the number, such as a diverged one. ``add_errors``
    adds the rest.
    """
    found: dict[str, dict[str, Any]] = {}
    for label in study.rows:
        ran = [cell for cell in all_cells if cell.label == label and cell.status != "missing"]
        numbers = [cell.numbers() if cell.status == "done" else None for cell in ran]
        diverged = numbers.count(None)
        row: dict[str, Any] = {"diverged": diverged, "finished": len(ran) - diverged}
        row["recovered"] = sum(bool(one and one.get("recoveries")) for one in numbers)
        for heading, (name, factor, _) in study.columns.items():
            values = (descend(one, name) for one in numbers)
            row[heading] = [factor * x if isinstance(x, int | float) else None for x in values]
        found[label] = row
    add_errors(study, all_cells, found)
    return found


def descend(tree: Any, name: str) -> Any:
    """Returns the value under ``name``: a number, or None."""
    for part in name.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


def as_markdown(study: Study, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the table: mean and standard deviation over seeds, and how runs ended.

    A number that some runs lack says how many have it, diverged ones included. The test set's
    error, an interval of the mean and paired differences from the first row are shown if known. The
    last column, if any run recovered, counts those that diverged on the way and finished with other
    settings than the row's (``config.train.on_divergence``).
    """
    ends = ["diverged", *["recovered"] * any(row.get("recovered") for row in found.values())]
    headings = ["", *study.columns, "seeds", *ends]
    lines = [line_of(headings), "|" + "---|" * len(headings)]
    for label, row in found.items():
        entries = [label]
        for heading, (_, _, decimals) in study.columns.items():
            also = (row.get(name, {}).get(heading) for name in ("test_set_error", "interval"))
            entries.append(entry(row[heading], decimals, *also))
        entries += [str(row["finished"] + row["diverged"]), *(str(row[end]) for end in ends)]
        lines.append(line_of(entries))
    return "\n".join([*lines, *markdown(study, found)]) + "\n"


def write(study: Study, all_cells: Sequence[Cell], folder: Path) -> None:
    """Writes table.md and table.json, each whole or not at all."""
    found = table(study, all_cells)
    write_whole(folder / "table.md", as_markdown(study, found))
    write_whole(folder / "table.json", json.dumps(found, indent=2) + "\n")


def tell_absent(study: Study, all_cells: Sequence[Cell]) -> None:
    """Prints columns for which no finished run has a number: perhaps misspelled."""
    numbers = [cell.numbers() for cell in all_cells if cell.status == "done"]
    for heading, (name, _, _) in study.columns.items():
        if numbers and all(descend(one, name) is None for one in numbers):
            print(f"No finished run has a {name}, for the column {heading!r}.")


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
