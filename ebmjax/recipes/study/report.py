"""Writes report.html of a study, and that of a run again: ``ebmjax report``."""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ebmjax.recipes.config.errors import WorkdirError, count_nouns, stop
from ebmjax.recipes.folder.run_folder import check_links
from ebmjax.recipes.report import of_run, page
from ebmjax.recipes.study import reader

USAGE = """Writes report.html in the folder of a run or of a study: how it went, its numbers,
pictures and curves, in one file that fetches nothing. Every run and study leaves one at its end.
The command writes it at any time, also while a run goes on."""

MOST_BYTES = 700_000
"""Most bytes of a study's figures that a report holds; it links the others."""


def main() -> None:
    """Reads the command line of the process and writes; ends with code 2 after a mistake."""
    parser = argparse.ArgumentParser("ebmjax report", description=USAGE, allow_abbrev=False)
    parser.add_argument("folder", metavar="RUN", type=Path, help="folder of a run or of a study")
    folder = parser.parse_args().folder.expanduser()
    try:
        check_links(folder)
        print(write(folder) if (folder / "table.json").exists() else of_run.write(folder))
    except (WorkdirError, OSError) as error:
        stop(error)


def write(folder: Path) -> Path:
    """Writes the report of a study's folder and returns its path."""
    text = (folder / "table.md").read_text(encoding="utf-8", errors="replace")
    rows = reader.row_names(folder)
    states = {run.folder: run.status for row in rows for run in reader.runs(folder, row)}
    ends = ", ".join(f"{num:,} {state}" for state, num in Counter(states.values()).items())
    sizes = f"{count_nouns(len(rows), 'row')}, {count_nouns(len(states), 'run')}: {ends}."
    path, figures = folder / page.FILE, sorted(folder.glob("*.png"))
    page.write(
        path,
        f"Study {folder.absolute().name}",
        sizes,
        {
            "Table": [*_markdown(text)],
            "Figures": [*page.pictures(figures, folder, MOST_BYTES).values()],
            "Runs": page.table((_link(run), state) for run, state in states.items()),
        },
    )
    return path


def _link(run: Path) -> page.Part:
    place = "/".join(map(quote, (run.parent.name, run.name, page.FILE)))
    return {"href": place, "text": f"{run.parent.name}, {run.name}"}


def _markdown(text: str) -> Iterator[page.Part]:
    """Yields the tables of table.md, and the lines between them."""
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("| "):
            entries = line.removeprefix("| ").removesuffix(" |").replace("\\|", "\0").split(" | ")
            rows.append([entry.replace("\0", "|") for entry in entries])
        elif not line.startswith("|"):
            yield from page.table(rows[1:], rows[0] if rows else ())
            yield from [line] * bool(line)
            rows = []
