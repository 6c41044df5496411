"""Writes report.html of a run: how it ended, its numbers, pictures and curves, in one file.

Every run leaves one at its end. ``ebmjax report`` writes it at any time, also while a run goes on.
The file fetches and runs nothing, and every text is escaped, see ``page.html``. Whatever a run's
folder holds is mere data here, of any kind.
"""

import base64
import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, FileSystemLoader

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import WorkdirError, count_nouns, flatten, stop
from ebmjax.recipes.evaluators.result_tables import advice, own_numbers, results, with_error
from ebmjax.recipes.folder import run_folder

FILES = ("config.json", "summary.json", "evaluation.json", "recoveries.json", "command.json")

MOST_BYTES = 400_000
"""Most bytes of the pictures from plots/ that a report holds."""

FIRST = ("eval_samples", "samples_over_training", "eval_reconstructions", "eval_density")
FIRST += ("training", "eval_reliability", "eval_ood", "chains")
"""Pictures that come first. Of those of a step only the newest is shown."""
OF_A_STEP = re.compile(r"(samples|density)_\d+")


class RunData(NamedTuple):
    """Content of a run's folder; empty where a file is missing.

    JSON objects are by the names of their files, fields by dotted names. ``results`` are those of
    summary.json, or of an unfinished run the newest of its rows.
    """

    folder: Path
    files: Mapping[str, Mapping[str, Any]]
    config: Mapping[str, Any]
    rows: Sequence[dict[str, Any]]
    results: Mapping[str, Any]
    saved: run_folder.Saved | None

    def entries(self, file: str, name: str) -> list[Any]:
        """Returns a list in one of the files; [] if it has none."""
        found = self.files[file].get(name)
        return found if isinstance(found, list) else []


def read(folder: Path) -> RunData:
    """Returns what the folder holds.

    Raises:
      WorkdirError: if it is no run's folder, or it is damaged, or a link leads out of it.
    """
    run_folder.config_file(folder)
    places = {name: folder / name for name in FILES}
    files = {n: run_folder.read_json(p) if p.exists() else {} for n, p in places.items()}
    rows = run_folder.read_rows(folder)
    saved = None
    with contextlib.suppress(WorkdirError):  # there is none, or all are damaged
        saved = run_folder.newest_of(folder / "checkpoints")
    newest = {name: value for row in rows for name, value in row.items()}
    config, found = flatten(files["config.json"]), files["summary.json"] or newest
    return RunData(folder, files, config, rows, found, saved)


def as_json(value: Any) -> str:
    """Returns a field's value as a table shows it."""
    return json.dumps(value, ensure_ascii=False)


def write(folder: Path) -> Path:
    """Writes the report whole or not at all, and returns its path.

    Raises:
      WorkdirError: if the folder is no run's, or a file in it is damaged.
    """
    run, path = read(folder), folder / "report.html"
    texts, about = tables(run), run.files["summary.json"]
    origin = ("versions.", "revision", "devices", "seed", "params_sha256", "data_sha256")
    started = run.files["command.json"]  # the command that started the run last
    command, name = str(started.get("command", "")), Path(str(started.get("config", "run"))).name
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    text = pages.get_template("page.html").render(
        title=f"{name}: {folder.absolute().name}",
        verdict=verdict(run),
        notes=[
            *(as_json(one) for one in run.entries("recoveries.json", "recoveries")),
            *["± is one standard error."] * any("±" in str(one) for one in texts.values()),
            *fitting(advice, run.results),
            *run.entries("evaluation.json", "warnings"),
        ],
        tables=texts,
        pictures=_pictures(folder),
        data=run.entries("summary.json", "data"),
        fields={name: as_json(value) for name, value in run.config.items()},
        command=command,
        anew=re.sub(r"\s--?workdir[= ]('[^']*'|\S+)", "", command) + " --workdir=ANOTHER",
        origin={k: as_json(v) for k, v in flatten(dict(about)).items() if k.startswith(origin)},
    )
    text = text.encode(errors="replace").decode()  # JSON may hold half a letter
    run_folder.write_whole(path, text)
    return path


def write_at_exit(folder: Path, error: type[BaseException] | None, *_: object) -> None:
    """Writes the report at the end of a block ``with``, whose own error counts for more."""
    try:
        write(folder)
    except Exception:
        if error is None:
            raise


def tables(run: RunData) -> dict[str, dict[str, str]]:
    """Returns the main numbers of the run, and those of the user's parts, as text by label."""
    titled = {"Newest numbers": run.results, "Full evaluation": run.files["evaluation.json"]}
    found = {}
    for title, numbers in titled.items():
        own = own_numbers(numbers, run.config)
        texts = {name: fitting(with_error, numbers[name], None) for name in own}
        found[title] = fitting(results, numbers) | {k: text for k, text in texts.items() if text}
    return found


def verdict(run: RunData) -> str:
    """Returns in a line how a run ended, or how far it is."""
    last = max([row["step"] for row in run.rows] + ([run.saved.step] if run.saved else [0]))
    of = f" of {run.saved.total_steps:,}" if run.saved else ""
    if (run.folder / "diverged.txt").exists() or (run.saved and run.saved.is_diverged):
        text = f"Diverged at step {last:,}{of}"
    elif run.files["summary.json"]:
        seconds = fitting(" in {:,.0f} s".format, run.results.get("wall_seconds"))
        text = f"Done: {last:,} steps{seconds or ''}"
    else:
        text = f"Unfinished: step {last:,}{of}"
    recovered = len(run.entries("recoveries.json", "recoveries"))
    text += f"; recovered {count_nouns(recovered, 'time')}" * bool(recovered)
    skipped = fitting(lambda: int(np.sum(np.array(run.results["skipped"], float)))) or 0
    return text + f"; {count_nouns(skipped, 'step')} without a finite update" * bool(skipped) + "."


def fitting(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a function makes of a folder's numbers; nothing, {}, if they do not fit."""
    try:
        return function(*arguments)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return {}


def _pictures(folder: Path) -> list[dict[str, str]]:
    """Returns the pictures in plots/: links, beyond ``MOST_BYTES`` in all."""
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    places = filter(Path.is_file, sorted((folder / "plots").glob("*.png")))
    places = sorted(places, key=lambda path: ranks.get(path.stem, len(FIRST)))
    of_steps = [path for path in places if OF_A_STEP.fullmatch(path.stem)]
    places = of_steps[-1:] + [path for path in places if path not in of_steps]
    shown, left = [], MOST_BYTES
    for path in places:
        one, size = {"text": path.stem.replace("_", " ")}, path.stat().st_size
        if size <= left:
            one["png"] = base64.b64encode(path.read_bytes()).decode()
            left -= size
        else:
            one["href"] = quote(path.relative_to(folder).as_posix())
        shown.append(one)
    return shown


def main() -> None:
    """Reads the command line of the process and writes; ends with code 2 after a mistake."""
    parser = make_parser(__doc__, "ebmjax report")
    parser.add_argument("folder", metavar="RUN", type=Path, help="folder of a run")
    folder = parser.parse_args().folder.expanduser()
    try:
        print(write(folder))
    except (WorkdirError, OSError) as error:
        stop(error)
