"""Every row of every study is a run that the command line takes: its file, fields, ranges
and what may not go together. Every column is a number that such runs report."""

import json
import re
from pathlib import Path

import pytest
from experiment_runs import EXPERIMENTS

from ebmjax.recipes.config import families
from ebmjax.recipes.config.command_line import split
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.study.cells import cells, read_file

STUDIES = {
    f"{path.name}:{variant}": study
    for path in sorted((EXPERIMENTS / "studies").glob("*.py"))
    for variant, study in read_file(path).items()
}


@pytest.mark.parametrize("name", STUDIES)
def test_every_row_is_a_run_whose_arguments_have_an_effect(name):
    made = cells(STUDIES[name], Path("nowhere"), 1)
    for cell in made:
        every = families.all_fields(cell.config.family)
        _, given, _ = split(["", *cell.command])
        names = {one.partition("=")[0].removeprefix("--config.") for one in given}
        for field in names - {*families.fields_of(cell.config)}:
            assert every[field].is_off(cell.config.get(field, ...)), (cell.label, field)


def told(number):
    """Kind of a column about samples: which score of which set, or how far chains came."""
    *place, last = number.split(".")
    if "displacement" in last:
        return "displacement"
    kind = re.fullmatch(r"(?:sample_|start_)?(fid|kid|is)(?:_infinity)?", last)
    if kind is None:
        return None
    if "starts" in place or last.startswith("start_"):
        return "starts", kind[1]
    return ("real" if "test_images" in place else "score"), kind[1]


@pytest.mark.parametrize("name", STUDIES)
def test_every_table_that_scores_samples_scores_their_starts_beside_them(name):
    """And says how far chains came: those that never moved have the scores of their starts."""
    numbers = [number for number, _, _ in STUDIES[name].columns.values()]
    found = {told(number) for number in numbers}
    kinds = {one[1] for one in found if one and one[0] == "score"}
    assert {("starts", kind) for kind in kinds} <= found
    assert "displacement" in found or not kinds


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.draw])
def test_figures_of_no_run_are_none(name, tmp_path):
    """So a study whose runs all diverged ends with its tables; toy_beta shows how far they came."""
    for draw in STUDIES[name].draw:
        draw(tmp_path)
    for cell in [] if "toy_beta" in name else cells(STUDIES[name], tmp_path, 1):
        cell.folder.mkdir(parents=True)
        (cell.folder / "config.json").write_text(json.dumps(as_json(cell.config)))
        (cell.folder / "diverged.txt").write_text("at step 3")
    for draw in STUDIES[name].draw:
        draw(tmp_path)
    assert list(tmp_path.rglob("*.png")) == []
