"""The table of a study: means, spreads, divergences and what is missing."""

import sys

import pytest
from experiment_runs import strict_json
from study_problem import STUDY, fake_runs, run

from ebmjax.recipes.folder.workdir import write_json
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import cells, with_extractors
from ebmjax.recipes.study.command import main, run_all
from ebmjax.recipes.study.table import as_markdown, table, tell_absent, write


def test_the_table_has_mean_spread_and_divergences(tmp_path, monkeypatch):
    fake_runs(monkeypatch)
    made = cells(STUDY, tmp_path, 2)
    run(made)
    found = table(STUDY, made)
    assert found["plain, a"]["accuracy | %"] == [50.0, 75.0]
    assert found["plain, a"]["seconds"] == [10.0, 11.0]
    assert (found["other/b"]["finished"], found["other/b"]["diverged"]) == (1, 1)
    lines = as_markdown(STUDY, found).splitlines()
    assert lines[0] == "|  | accuracy \\| % | seconds | absent | seeds | diverged |"
    assert lines[2] == "| plain, a | 62.5 ± 17.7 [-96.3, 221.3] | 10 ± 1 [4, 17] | - | 2 | 0 |"
    assert lines[3] == "| other/b | 50.0 (1 of 2) | 10 (1 of 2) | - | 2 | 1 |"
    renamed = {label.replace(",", "|"): row for label, row in found.items()}
    assert as_markdown(STUDY, renamed).splitlines()[2].startswith("| plain\\| a | 62.5 ")
    write(STUDY, made, tmp_path)
    assert (tmp_path / "table.md").read_text().splitlines() == lines
    assert strict_json((tmp_path / "table.json").read_text()) == found


def test_a_mean_over_fewer_seeds_says_over_how_many(tmp_path, capsys):
    """Five seeds: one is null, one lacks the number, one diverged, and one is not run yet."""
    columns = {"R-hat": ("mixing.rhat", 1.0, 1), "FID": ("fid", 1.0, 0)}
    study = Study(rows={"row": "configs/jem_digits.py"}, columns=columns)
    made = cells(study, tmp_path, 5)
    evaluations = ({"rhat": 29.6}, {"rhat": None}, {})
    for cell in made[:4]:
        cell.folder.mkdir(parents=True)
    for cell, mixing in zip(made, evaluations, strict=False):
        write_json(cell.folder / "evaluation.json", {"mixing": mixing, "fid": 7.0 + cell.seed})
    (made[3].folder / "diverged.txt").write_text("Training diverged")
    found = table(study, made)
    assert found["row"]["R-hat"] == [29.6, None, None, None]
    lines = as_markdown(study, found).splitlines()
    assert lines[2] == "| row | 29.6 (1 of 4) | 8 ± 1 [6, 10] (3 of 4) | 4 | 1 |"
    tell_absent(study, made)
    assert capsys.readouterr().out == ""  # one run has it


def test_a_run_that_recovered_is_counted(tmp_path):
    """It finished, but under other settings than its row's."""
    study = Study(
        rows={"row": "configs/jem_digits.py", "other": "configs/jem_digits.py"}, columns={}
    )
    made = cells(study, tmp_path, 2)
    for cell in made:
        cell.folder.mkdir(parents=True)
        write_json(cell.folder / "evaluation.json", {})
        is_recovered = cell.label == "row" and cell.seed == 1
        write_json(cell.folder / "summary.json", {"recoveries": [{"number": 1}] * is_recovered})
    found = table(study, made)
    assert [(row["finished"], row["recovered"]) for row in found.values()] == [(2, 1), (2, 0)]
    lines = as_markdown(study, found).splitlines()
    assert lines[0] == "|  | seeds | diverged | recovered |"
    assert lines[2:] == ["| row | 2 | 0 | 1 |", "| other | 2 | 0 | 0 |"]


COLUMNS = {
    "seconds": ("run_seconds", 1.0, 0),
    "FID ({extractor})": ("generation.buffer.fid", 2.0, 1),
}
WEIGHTS = "--config.evals.inception_weights=weights.npz"


@pytest.mark.parametrize(
    ("own", "of_all", "features"),
    [
        ([], [], "digits features"),
        ([], [WEIGHTS], "inception v3"),
        ([WEIGHTS], [], "digits features, inception v3"),
        (["--config.data.image_size=12"], [], "classifier features, digits features"),
    ],
)
def test_a_heading_names_the_extractors_of_the_rows(own, of_all, features, tmp_path):
    rows = {"plain": "configs/jem_digits.py", "own": ["configs/jem_digits.py", *own]}
    study = Study(rows, COLUMNS)
    found = with_extractors(study, cells(study, tmp_path, 1, of_all))
    assert found.columns == {
        "seconds": COLUMNS["seconds"],
        f"FID ({features})": COLUMNS["FID ({extractor})"],
    }
    assert found.rows == rows


def test_a_table_names_the_extractor_of_its_runs(tmp_path, monkeypatch):
    fake_runs(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.npz").touch()
    path = tmp_path / "judged.py"
    path.write_text(
        "from ebmjax.recipes.study import Study\n"
        "columns = {'FID ({extractor})': ('generation.fresh.fid', 1.0, 1)}\n"
        "STUDY = Study({'row': 'configs/jem_digits.py'}, columns, num_seeds=1)\n"
    )
    arguments = ["study.py", f"--study={path}", f"--folder={tmp_path / 'runs'}", WEIGHTS]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    heading, *_ = (tmp_path / "runs" / "table.md").read_text().splitlines()
    assert heading == "|  | FID (inception v3) | seeds | diverged |"


def test_a_family_without_features_has_the_columns_that_it_names(tmp_path):
    study = Study({"toy": "configs/toy_beta.py"}, {"seconds": COLUMNS["seconds"]})
    assert with_extractors(study, cells(study, tmp_path, 1)) == study


def test_a_column_that_no_run_has_is_named(tmp_path, monkeypatch, capsys):
    fake_runs(monkeypatch)
    assert run_all(STUDY, cells(STUDY, tmp_path, 1), tmp_path, 1) == 0
    said = capsys.readouterr().out
    assert "No finished run has a nowhere.to.be.found, for the column 'absent'." in said
    assert said.count("No finished run has") == 1
