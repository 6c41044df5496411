"""Writes report.html of a run: how it ended, its numbers, pictures and curves."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import WorkdirError, count_nouns, flatten
from ebmjax.recipes.config.extractor_names import EXTRACTOR
from ebmjax.recipes.evaluators.plots import drawable, montage, panels, with_own_panels
from ebmjax.recipes.evaluators.result_tables import (
    advice,
    evaluation_results,
    fid_text,
    own_numbers,
    results,
    with_error,
    with_interval,
)
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.report import page, run_data
from ebmjax.recipes.report.run_data import COMMAND, RunData, as_json

MOST_BYTES, STRIP_BYTES = 230_000, 30_000
"""Most bytes of the pictures from plots/ that a report holds, and of one strip's pixels."""

STEPS, IN_STRIP, MOST_PANELS = 4, 16, 9
"""Most steps whose samples are shown, samples of each, and panels for an unknown family."""

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

NUMBERS = (
    ("test accuracy", "test_accuracy", "classification.accuracy"),
    ("test calibration error (ECE)", "test_ece", "classification.ece"),
    ("log evidence by annealed importance sampling, nats", "", "evidence.ais.mean"),
    ("test log evidence, nats", "test_log_evidence", ""),
    ("test log evidence by the trapezium rule, nats", "test_trapezium_log_evidence", ""),
    ("total variation from the data's density", "density_tv", ""),
    ("total variation of chains' ends from the data", "sample_tv", ""),
    ("test squared error a pixel", "test_reconstruction_error", "test_reconstruction_error"),
    ("acceptance of chains", "chain_acceptance_prob", ""),
    ("loss", "loss", ""),
)
"""Label of a number, its name among rows, and that in an evaluation, which has its error."""


def write(folder: Path, is_over: bool = False) -> Path:
    """Writes the report and returns its path; ``is_over`` if no process trains there any more.

    Raises:
      WorkdirError: if the folder is no run's, or a file in it is damaged.
    """
    run, shown, path = run_data.read(folder), _pictures(folder), folder / page.FILE
    texts, numbers = tables(run), fitting(_four_numbers, run) or []
    errors = [str(numbers), *(text for one in texts.values() for text in one.values())]
    page.write(
        path,
        f"{Path(str(run.files[COMMAND].get('config', 'run'))).name}: {folder.absolute().name}",
        verdict(run, is_over),
        {
            SAMPLES: [*page.table(_strips(run)), *shown.pop(SAMPLES)],
            "Curves": fitting(_curves, run),
            **shown,
            **{name: page.table(found.items()) for name, found in texts.items()},
            "Configuration": fitting(_configuration, run),
            "Commands": _commands(run),
            "Where it ran": page.table(_origin(run)),
        },
        above=[as_json(one) for one in run.entries("recoveries.json", "recoveries")],
        numbers=numbers,
        below=[
            *["± is one standard error."] * any("±" in text for text in errors),
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


def _four_numbers(run: RunData) -> list[tuple[str, str, str]]:
    """Returns the first four that the run has, each with its error and what to compare with."""
    found, row = [], run.newest("sample_fid")
    if row:
        beside = fid_text(row).partition(" (")[2].removesuffix(")")
        ends = [row.get(f"fid_minus_starts{end}") for end in ("", "_low", "_high")]
        if None not in ends:
            beside += f"; minus starts {with_interval(*ends)}, 95 % interval"
        number = with_error(row["sample_fid"], row.get("sample_fid_error"))
        found.append(("FID of samples", number, f"at step {row['step']:,}. {beside}"))
    plain = run.evaluation.get("generation.extractor.test_accuracy")
    for label, name, place in NUMBERS:
        one = {"step": run.evaluation.get("step"), name: run.evaluation.get(place)}
        one = run.newest(name) if one[name] is None else one
        is_beside = name == "test_accuracy" and plain is not None
        beside = f"the classifier whose features FID compares: {plain:.4g}" if is_beside else ""
        if one:
            number = with_error(one[name], run.evaluation.get(f"test_set_error.{place}"))
            found.append((label, number, f"at step {one['step']:,}. {beside}"))
    return found[:4]


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
    places: dict[Path, str] = {}
    for title, patterns in PICTURES.items():
        for path in (p for one in patterns for p in sorted((folder / "plots").glob(f"{one}.png"))):
            if path.is_file() and not SHOWN_OTHERWISE.fullmatch(path.stem):
                places.setdefault(path, title)
    shown = page.pictures(places, folder, MOST_BYTES)
    return {title: [shown[p] for p in places if places[p] == title] for title in PICTURES}


def _strips(run: RunData) -> Iterator[tuple[page.Part, ...]]:
    """Yields samples of some monitored steps; of the last ones also what stands below them."""
    rows = {row["step"]: row for row in run.rows if "sample_fid" in row}
    found = [p for p in workdir.snapshots(run.folder) if _strip(p, "samples")]
    chosen = sorted({round(x) for x in np.linspace(0, len(found) - 1, STEPS)} if found else ())
    wanted = [(found[i], "samples", f"step {int(found[i].stem):,}") for i in chosen]
    for path in found[-1:]:
        wanted += [(path, "nearest", "training images nearest to these, by pixels")]
        wanted += [(path, "starts", "where the last ones started")]
    for path, name, label in wanted:
        row, picture, one = rows.get(int(path.stem), {}), _strip(path, name), name.removesuffix("s")
        fid = fitting(with_error, row.get(f"{one}_fid"), row.get(f"{one}_fid_error"))
        if picture:
            fid = f"FID {fid}" if row.get(f"{one}_fid") else ""
            yield label, fid, page.png(picture, label, "strip")


def _strip(path: Path, name: str) -> bytes:
    """Returns the first images of an array as a PNG; nothing if they are none."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            np.lib.format.read_magic(file)
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
            num, *one = shape[-4:]
            num = min(num, IN_STRIP, STRIP_BYTES // (3 * one[0] * one[1]))  # drawn in colours
            if dtype != np.uint8 or is_fortran or one[2] not in (1, 3) or num < 1:
                return b""
            pixels = file.read(num * int(np.prod(one)))  # no more, whatever the file says
        images = np.frombuffer(pixels, np.uint8).reshape(num, *one)
        Image.fromarray(montage(images, num)).save(buffer := io.BytesIO(), "PNG")
        return buffer.getvalue()
    except Exception:  # whatever a damaged or a foreign file does
        return b""


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
