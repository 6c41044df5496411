"""Table and figure of a study of samplers on points, from the runs' evaluation.json."""

import statistics
from pathlib import Path
from typing import Any

from ebmjax.recipes.evaluators import plots
from ebmjax.recipes.evaluators.comparison import SETTINGS
from ebmjax.recipes.study.cells import find_runs
from ebmjax.recipes.study.table import entry, markdown_table

# Sampling-approaches thesis, section 4.1.
PUBLISHED = {
    "gradient_descent": 2891.63,
    "sgld": 19.21,
    "psgld": 6.49,
    "literal_psgld": 6.49,
    "mala": 6.46,
    "literal_mala": 6.46,
}

COLUMNS = {
    "R-hat, classic": ("rhat_classic", 2),
    "R-hat, rank": ("rhat_rank", 2),
    "ESS": ("ess", 1),
    "ESS of chains alone": ("ess_within", 0),
    "ESS/s": ("ess_per_second", 0),
    "ESS/s of chains alone": ("ess_within_per_second", 0),
    "distance to data": ("distance_to_data", 2),
    "distance to model": ("distance_to_model", 2),
    "in a mode": ("inside", 3),
    "acceptance": ("acceptance_prob", 3),
}


def study(folder: Path) -> None:
    """Writes samplers.md of a study's folder, and samplers_<row>.png for each row."""
    sections = []
    for row, found in find_runs(folder).items():
        runs = [run.numbers() for run in found if run.status == "done"]
        settings = [name for name in SETTINGS if runs and name in runs[0]]
        sections += [f"## {row}, {setting}\n\n{table(runs, setting)}" for setting in settings]
        if settings:
            figure(folder / f"samplers_{row}.png", runs, settings)
    (folder / "samplers.md").write_text("\n".join(sections))


def table(runs: list[dict[str, Any]], setting: str) -> str:
    """Returns one setting in Markdown: a row a sampler, mean and standard deviation over runs."""

    def line(label: str, published: object, reports: list[dict[str, Any]]) -> list[str]:
        means = (entry([one.get(k) for one in reports], n) for k, n in COLUMNS.values())
        return [label, str(published), *means]

    rows = []
    for name in runs[0][setting]:
        published = PUBLISHED.get(name, "-") if setting == "thesis" else "-"
        rows.append(line(name.replace("_", " "), published, [run[setting][name] for run in runs]))
    found = [run["references"]["locked"] for run in runs if run["references"]]
    rows.append(line("*independent draws, no crossing*", "-", found))
    return "\n".join([*markdown_table(["", "R-hat, published", *COLUMNS], rows), ""])


def figure(path: Path, runs: list[dict[str, Any]], settings: list[str]) -> None:
    """Draws a dot a run: R-hat beside the published one, efficiency, distance from the model."""
    panels = (
        ("rhat_classic", "R-hat, classic"),
        ("rhat_rank", "R-hat, rank-normalised"),
        ("ess_within_per_second", "ESS per second, chains alone"),
        ("distance_to_model", "energy distance to the model"),
    )
    names = [*runs[0][settings[0]]]
    published = [(PUBLISHED[name], row) for row, name in enumerate(names) if name in PUBLISHED]
    options: Any = {"size": (3.6, 4.2), "sharey": True, "has_legend": True}
    with plots.figure(path, 1, len(panels), **options) as (grid,):
        for axes, (number, label) in zip(grid, panels, strict=True):
            for i, setting in enumerate(settings):
                dots = [
                    (run[setting][name][number], row + 0.25 * i)
                    for run in runs
                    for row, name in enumerate(names)
                    if run[setting][name][number] is not None
                ]
                if dots:
                    axes.plot(*zip(*dots, strict=True), "o", alpha=0.6, label=setting)
                    axes.set_xscale("log")
            found = [run["references"].get("locked", {}).get(number) for run in runs]
            if known := [value for value in found if value is not None]:
                axes.axvline(statistics.mean(known), color="0.3", ls="--", label="locked")
            axes.set_xlabel(label)
            axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        grid[0].plot(*zip(*published, strict=True), "x", color="0.3", ms=7, label="published")
        grid[0].invert_yaxis()
