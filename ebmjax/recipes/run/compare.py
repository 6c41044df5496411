"""Compares runs: ``ebmjax compare``."""

import os
from collections.abc import Mapping
from functools import partial
from itertools import cycle
from pathlib import Path

from ebmjax._shown import printable
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, stop
from ebmjax.recipes.evaluators.plots import LINES, by_step, curve, figure, line, shape
from ebmjax.recipes.evaluators.sample_scores import with_interval
from ebmjax.recipes.folder import per_image
from ebmjax.recipes.folder.run_folder import check_links
from ebmjax.recipes.report import of_run, page, run_data
from ebmjax.recipes.report.curves import Panel, curves, script
from ebmjax.recipes.report.page import Html, element
from ebmjax.recipes.report.run_data import RunData, as_json
from ebmjax.recipes.run.outputs import check_out

USAGE = """Compares runs: the fields in which they differ, their last numbers side by side, and the
differences from the first run on the same test images, with 95 % intervals. --out=FILE also writes
a page (.html) with the curves on common axes, or only these (.png). The folders stay as they are.

  ebmjax compare RUN RUN --out=both.html
"""

ENDINGS = (".html", ".png")

NOT_PAIRED = (
    "An interval is of the two trained models, not of two ways to train. Numbers of a set of "
    "images, such as FID, are not paired: their standard errors stand beside them."
)

OF_POINTS = (
    "Numbers of points are of a whole density or of chains' ends, none of them point by point, so "
    "they have no interval here. For one, compare seeds in a study (see the page studies of the "
    "documentation)."
)

Table = list[list[str]]
"""Rows of texts; the first one names the runs."""


def main() -> None:
    """Reads the command line of the process, prints and writes; ends with 2 after a mistake."""
    parser = make_parser(USAGE, "ebmjax compare")
    parser.add_argument("folders", metavar="RUN", nargs="+", type=Path, help="folder of a run")
    parser.add_argument("--out", type=Path, help="file to write, .html or .png")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    given = parser.parse_args()
    folders = [folder.expanduser() for folder in given.folders]
    try:
        if len({folder.resolve() for folder in folders}) < 2:
            raise ConfigError("ebmjax compare takes the folders of two runs or more.")
        for folder in folders:
            check_links(folder)
            if given.out:
                check_out(given.out.expanduser(), ENDINGS, folder, (), given.overwrite)
        top = os.path.commonpath([folder.resolve() for folder in folders])
        runs = {os.path.relpath(f.resolve(), top): run_data.read(f) for f in folders}
        tables = compare(runs)
        for title, table in tables.items():
            if len(table) > 1:
                print(f"{title}\n{_as_text(table)}\n")
        note = OF_POINTS if _are_points(*runs.values()) else NOT_PAIRED
        print(note)
        if given.out:
            _write(given.out.expanduser(), runs, tables, note)
            print(given.out)
    except (ConfigError, WorkdirError, OSError) as error:
        stop(error)


def compare(runs: Mapping[str, RunData]) -> dict[str, Table]:
    """Returns tables by title: fields that differ, the last numbers, and paired differences."""
    first, *others = runs
    fields = {k: {f: as_json(v) for f, v in run.config.items()} for k, run in runs.items()}
    same = [f for f in fields[first] if len({one.get(f) for one in fields.values()}) == 1]
    tables = {
        "Runs": {k: {"how it ended": of_run.verdict(run)} for k, run in runs.items()},
        "Fields that differ": {
            k: {f: v for f, v in one.items() if f not in same} for k, one in fields.items()
        },
        **{
            title: {k: of_run.tables(run)[title] for k, run in runs.items()}
            for title in ("Newest numbers", "Full evaluation")
        },
        f"Difference from {first} on the same images, 95 % interval": {
            k: _differences(runs[k], runs[first]) for k in others
        },
    }
    return {title: _side_by_side(texts) for title, texts in tables.items()}


def _side_by_side(texts: Mapping[str, Mapping[str, str]]) -> Table:
    """Returns a row for each label that any run has, and a column for each run."""
    labels = dict.fromkeys(label for found in texts.values() for label in found)
    rows = [[label, *(found.get(label, "-") for found in texts.values())] for label in labels]
    return [["", *texts], *rows]


def _differences(ours: RunData, theirs: RunData) -> dict[str, str]:
    """Returns the paired differences of a run from another, or why there are none."""
    reports = [run.files["evaluation.json"] for run in (ours, theirs)]
    digests = [report.get("images_sha256") for report in reports]
    if _are_points(ours, theirs):
        return {}
    if None in digests:
        return {"not paired": "a run has no full evaluation (--mode=eval)"}
    if digests[0] != digests[1]:
        return {"not paired": "they were evaluated on different images"}
    found = of_run.fitting(_pair_numbers, ours, theirs)
    return found or {"not paired": "no number of both is kept image by image"}


def _pair_numbers(ours: RunData, theirs: RunData) -> dict[str, str]:
    texts = {}
    for name in ours.files["evaluation.json"]["test_set_error"]:
        both = [
            per_image.read(one.folder, name, int(one.config.get("train.num_repeats") or 1))
            for one in (ours, theirs)
        ]
        parts, reference = ({i: (0, x) for i, x in enumerate(found) if x} for found in both)
        found = per_image.difference(parts, reference)
        if found:
            texts[name] = with_interval(found["difference"], found["low"], found["high"])
    return texts


def _are_points(*runs: RunData) -> bool:
    return all("density" in run.files["evaluation.json"] for run in runs)


def _as_text(table: Table) -> str:
    """Returns a table's lines, in columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ([f"{one:{width}}" for one, width in zip(row, widths, strict=True)] for row in table)
    return "\n".join(printable("  " + "  ".join(line).rstrip()) for line in lines)


def draw(runs: Mapping[str, RunData], path: Path) -> None:
    """Draws a panel for each number that a run has logged, with a curve for each run."""
    wanted = _numbers_by_scale(runs)
    with figure(path, *shape(len(wanted)), has_legend=True) as grid:
        for axes, (name, scale) in zip(grid.flat, wanted.items(), strict=False):
            for (label, run), style in zip(runs.items(), cycle(LINES), strict=False):
                curve(axes, [*run.rows], name, label=label.replace("$", r"\$"), **style)
            by_step(axes, name.replace("_", " ").replace("$", r"\$"), scale)


def _numbers_by_scale(runs: Mapping[str, RunData]) -> dict[str, str]:
    """Returns numbers that a run has logged, with their axes' scales; without any, ConfigError."""
    panels = [one for run in runs.values() for one in of_run.panels_of(run)]
    wanted = {name: scale for _, names, scale in panels for name in names}
    wanted = {k: v for k, v in wanted.items() if any(run.newest(k) for run in runs.values())}
    if not wanted:
        raise ConfigError("the runs have logged nothing yet, so there are no curves.")
    return wanted


def _curves(runs: Mapping[str, RunData]) -> Html:
    found = []
    for name, scale in _numbers_by_scale(runs).items():
        lines = {label: line([*run.rows], name) for label, run in runs.items()}
        found.append(Panel(name.replace("_", " "), scale, lines))
    return curves(found, partial(draw, runs))


def _write(out: Path, runs: Mapping[str, RunData], tables: Mapping[str, Table], note: str) -> None:
    if out.suffix == ".png":
        draw(runs, out)
        return
    sections = [page.section(t, page.table(rows[1:], rows[0])) for t, rows in tables.items()]
    sections += [page.section("Curves", _curves(runs)), element("p", note)]
    page.write(out, f"Comparison of {', '.join(runs)}", *sections, script=script())
