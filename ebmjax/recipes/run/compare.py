"""Compares runs: the fields in which they differ, their last numbers side by side, and the
differences from the first run on the same test images, with 95 % intervals. An interval is of the
trained models, not of ways to train: for that, take a study. The folders stay as they are.

  ebmjax compare RUN RUN
"""

from collections.abc import Mapping
from pathlib import Path

from ebmjax._shown import printable
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, stop
from ebmjax.recipes.evaluators.result_tables import with_interval
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.report import of_run


def main() -> None:
    """Reads the command line of the process and prints; ends with 2 after a mistake."""
    parser = make_parser(__doc__, "ebmjax compare")
    parser.add_argument("folders", metavar="RUN", nargs="+", type=Path, help="folder of a run")
    folders = [folder.expanduser() for folder in parser.parse_args().folders]
    try:
        if len({folder.resolve() for folder in folders}) < 2:
            raise ConfigError("ebmjax compare takes the folders of two runs or more.")
        for title, texts in compare({str(f): of_run.read(f) for f in folders}).items():
            labels = dict.fromkeys(label for found in texts.values() for label in found)
            rows = [[one, *(found.get(one, "-") for found in texts.values())] for one in labels]
            widths = [max(map(len, column)) for column in zip(["", *texts], *rows, strict=True)]
            print(title * bool(rows))
            for row in [["", *texts], *rows] * bool(rows):
                cells = (f"{one:{width}}" for one, width in zip(row, widths, strict=True))
                print(printable(f"  {'  '.join(cells).rstrip()}"))
    except (ConfigError, WorkdirError, OSError) as error:
        stop(error)


def compare(runs: Mapping[str, of_run.RunData]) -> dict[str, dict[str, dict[str, str]]]:
    """Returns texts by title, run and label: fields, the last numbers, and paired differences."""
    first, *others = runs
    fields = {k: {f: of_run.as_json(v) for f, v in run.config.items()} for k, run in runs.items()}
    same = [f for f in fields[first] if len({one.get(f) for one in fields.values()}) == 1]
    numbers = {k: of_run.tables(run) for k, run in runs.items()}
    return {
        "Runs": {k: {"how it ended": of_run.verdict(run)} for k, run in runs.items()},
        "Fields that differ": {
            k: {f: v for f, v in one.items() if f not in same} for k, one in fields.items()
        },
        **{title: {k: tables[title] for k, tables in numbers.items()} for title in numbers[first]},
        f"Difference from {first} on the same images, 95 % interval": {
            k: of_run.fitting(_differences, runs[k], runs[first]) or {} for k in others
        },
    }


def _differences(ours: of_run.RunData, theirs: of_run.RunData) -> dict[str, str]:
    """Returns the paired differences of a run from another, if both are of the same images."""
    reports = [run.files["evaluation.json"] for run in (ours, theirs)]
    digests = [report.get("images_sha256") for report in reports]
    texts = {}
    for name in reports[0]["test_set_error"] if digests[0] and digests[0] == digests[1] else ():
        found = (run_folder.read_per_image(run.folder, name) for run in (ours, theirs))
        if found := run_folder.paired_difference(*({0: (0, one)} if one else {} for one in found)):
            texts[name] = with_interval(found["difference"], found["low"], found["high"])
    return texts
