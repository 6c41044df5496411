"""Writes report.html of a run: how it ended, its numbers, pictures and curves, in one file.

Every run leaves one at its end. ``ebmjax report`` writes it at any time, also while a run goes on.
The file fetches nothing.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import WorkdirError, count_nouns, flatten, stop
from ebmjax.recipes.config.extractor_names import EXTRACTOR
from ebmjax.recipes.evaluators.plots import drawable, panels, with_own_panels
from ebmjax.recipes.evaluators.result_tables import (
    advice,
    evaluation_results,
    own_numbers,
    results,
    with_error,
)
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.run_folder import check_links
from ebmjax.recipes.report import page, run_data
from ebmjax.recipes.report.run_data import COMMAND, RunData, as_json

MOST_BYTES, MOST_PANELS = 230_000, 9
"""Most bytes of the pictures from plots/ that a report holds, and panels of an unknown family."""

SAMPLES = "Samples over training"
PICTURES = {
    SAMPLES: ("eval_samples", "samples_over_training", "reconstructions", "density"),
    "Calibration": ("eval_reliability",),
    "Out of distribution": ("eval_ood",),
    "Chains": ("chains", "eval_energies"),
    "Further pictures": ("eval_*", "*"),
}
"""Patterns of files in plots/ by section, in the order in which the room is given away."""

SHOWN_OTHERWISE = re.compile(r"training|(samples|density)_\d+")


def write(folder: Path, is_over: bool = False) -> Path:
    """Writes the report and returns its path; ``is_over`` if no process trains there any more.

    Raises:
      WorkdirError: if the folder is no run's, or a file in it is damaged.
    """
    run, shown, path = run_data.read(folder), _pictures(folder), folder / page.FILE
    texts = tables(run)
    page.write(
        path,
        f"{Path(str(run.files[COMMAND].get('config', 'run'))).name}: {folder.absolute().name}",
        verdict(run, is_over),
        {
            **{name: page.table(found.items()) for name, found in texts.items()},
            SAMPLES: shown.pop(SAMPLES),
            "Curves": fitting(_curves, run),
            **shown,
            "Configuration": fitting(_configuration, run),
            "Commands": _commands(run),
            "Where it ran": page.table(_origin(run)),
        },
        notes=[
            *(as_json(one) for one in run.entries("recoveries.json", "recoveries")),
            *["± is one standard error."] * any("±" in str(one) for one in texts.values()),
            *fitting(advice, run.results),
            *run.entries("evaluation.json", "warnings"),
        ],
    )
    return path


def tables(run: RunData) -> dict[str, dict[str, str]]:
    """Returns the main numbers of the run, and those of the user's parts, as text by label."""
    found = {}
    for title, of, numbers in (
        ("Newest numbers", results, run.results),
        ("Full evaluation", evaluation_results, run.evaluation),
    ):
        own = own_numbers(numbers, run.files["config.json"])
        texts = {name: fitting(with_error, numbers[name], None) for name in own}
        found[title] = fitting(of, numbers) | {k: text for k, text in texts.items() if text}
    return found


def verdict(run: RunData, is_over: bool = False) -> str:
    """Returns in a line how a run ended, or how far it is."""
    last = max([row["step"] for row in run.rows] + ([run.saved.step] if run.saved else [0]))
    of = f" of {run.saved.total_steps:,}" if run.saved else ""
    if (run.folder / "diverged.txt").exists() or (run.saved and run.saved.is_diverged):
        text = f"Diverged at step {last:,}{of}"
    elif run.files["summary.json"]:
        seconds = run.results.get("wall_seconds")
        text = f"Done: {last:,} steps" + (f" in {seconds:,.0f} s" if seconds else "")
    else:
        is_over = is_over or not _is_at_work(run.folder)
        text = f"{'Stopped at' if is_over else 'Goes on:'} step {last:,}{of}"
    recovered = len(run.entries("recoveries.json", "recoveries"))
    skipped = int(np.sum(np.array(run.newest("skipped").get("skipped", 0), float)))
    text += f"; recovered {count_nouns(recovered, 'time')}" * bool(recovered)
    return text + f"; {count_nouns(skipped, 'step')} without a finite update" * bool(skipped) + "."


def fitting(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function makes of a folder's numbers; nothing, {}, if they do not fit."""
    try:
        return function(*arguments)
    except (LookupError, TypeError, ValueError, ArithmeticError, zipfile.BadZipFile):
        return {}


def _is_at_work(folder: Path) -> bool:
    try:
        with workdir.only_process(folder, is_reader=True):
            return False
    except WorkdirError:
        return True


def panels_of(run: RunData) -> Sequence[tuple[str, Sequence[str], str]]:
    """Returns the panels of the run's curves: label, names of numbers, and scale."""
    family = str(run.config.get("family"))
    known: Any = families.module(family, "plots") if family in families.FAMILIES else None
    if hasattr(known, "PANELS"):
        features = str(run.results.get("extractor", "")).replace("_", " ")
        of_family = [(label.replace(EXTRACTOR, features), *rest) for label, *rest in known.PANELS]
        return with_own_panels(run.rows, run.files["config.json"], of_family)
    names = {name: None for row in run.rows for name in row if name != "step"}
    return [(name.replace("$", r"\$"), (name,), "linear") for name in names][:MOST_PANELS]


def _curves(run: RunData) -> list[page.Part]:
    """Returns the curves of the run; nothing if there is nothing to draw."""
    rows = [*run.rows]
    wanted = drawable(rows, panels_of(run))
    return [page.svg(lambda path: panels(path, rows, wanted, {}))] if wanted else []


def _pictures(folder: Path) -> dict[str, list[page.Part]]:
    """Returns the pictures of each section of ``PICTURES``."""
    newest = sorted((folder / "plots").glob("samples_[0-9]*.png"))[-1:]
    places: dict[Path, str] = dict.fromkeys(newest, SAMPLES)
    for title, patterns in PICTURES.items():
        for path in (p for one in patterns for p in sorted((folder / "plots").glob(f"{one}.png"))):
            if path.is_file() and not SHOWN_OTHERWISE.fullmatch(path.stem):
                places.setdefault(path, title)
    shown = page.pictures(places, folder, MOST_BYTES)
    return {title: [shown[p] for p in places if places[p] == title] for title in PICTURES}


def _configuration(run: RunData) -> list[page.Part]:
    started, found = run.files[COMMAND], []
    if started.get("changes") is not None:
        rows = [
            (name, as_json(new), as_json(old)) for name, (old, new) in started["changes"].items()
        ]
        found = page.table(rows, ("field that differs", "here", str(started["config"])))
    (every,) = page.table((name, as_json(value)) for name, value in run.config.items())
    return [
        *found,
        *run.entries("summary.json", "data"),
        {"summary": "all fields", "hidden": every},
    ]


def _commands(run: RunData) -> list[page.Part]:
    command = str(run.files[COMMAND].get("command", ""))
    anew = re.sub(r"\s--?workdir[= ]('[^']*'|\S+)", "", command) + " --workdir=ANOTHER"
    wanted = {"To go on, or to draw a finished run's plots again:": command, "To repeat it:": anew}
    return [{"why": why, "command": one} for why, one in wanted.items()] if command else []


def _origin(run: RunData) -> Iterator[tuple[str, str]]:
    names = ("versions.", "revision", "devices", "seed", "params_sha256", "data_sha256")
    for name, value in flatten(dict(run.files["summary.json"])).items():
        if name.startswith(names):
            yield name, as_json(value)


def main() -> None:
    """Reads the command line of the process and writes; ends with code 2 after a mistake."""
    parser = make_parser(__doc__, "ebmjax report")
    parser.add_argument("folder", metavar="RUN", type=Path, help="folder of a run")
    folder = parser.parse_args().folder.expanduser()
    try:
        check_links(folder)
        print(write(folder))
    except (WorkdirError, OSError) as error:
        stop(error)
