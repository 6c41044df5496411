"""experiments/study.py: which runs it starts, and which it skips."""

import sys
from dataclasses import replace

from study_problem import STUDY, fail_runs, fake_runs, run

from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.command import run_all


def test_a_cell_is_one_run_of_its_row_and_seed(tmp_path):
    made = cells(STUDY, tmp_path, 2)
    assert [(cell.label, cell.seed) for cell in made] == [
        ("plain, a", 0),
        ("other/b", 0),
        ("plain, a", 1),
        ("other/b", 1),
    ]
    assert made[3].command == [
        sys.executable,
        "-m",
        "ebmjax.recipes",
        "run",
        "--config=configs/jem_digits.py:mala",
        "--config.evals.ood.every=never",
        "--config.train.num_epochs=3",
        "--config.seed=1",
        f"--workdir={tmp_path}/other-b/seed1",
        "--mode=all",
    ]
    assert len({cell.folder for cell in made}) == 4
    assert [cell.config.seed for cell in made] == [0, 0, 1, 1]


def test_what_the_command_line_says_counts_before_what_a_row_says(tmp_path):
    given = ["--config.train.num_epochs=7", "--config.evals.ood.every=2"]
    made = cells(STUDY, tmp_path, 1, given)
    assert [cell.config.train.num_epochs for cell in made] == [7, 7]
    assert [cell.config.evals.ood.every for cell in made] == [2, 2]
    assert made[1].command[4:-3] == [
        "--config=configs/jem_digits.py:mala",
        "--config.evals.ood.every=never",
        "--config.train.num_epochs=3",
        *given,
    ]


def test_what_is_done_or_diverged_is_not_run_again(tmp_path, monkeypatch):
    calls = fake_runs(monkeypatch)
    made = cells(STUDY, tmp_path, 2)
    assert run(made) == ["done", "done", "done", "diverged"]
    assert len(calls) == 4
    assert run(made) == ["done", "done", "done", "diverged"]
    assert len(calls) == 4


def test_a_run_that_fails_is_told_and_stays_missing(tmp_path, monkeypatch, capsys):
    fail_runs(monkeypatch, "Traceback ...\nerror: no such data")
    (cell, *others) = cells(STUDY, tmp_path, 1)
    for _ in range(2):
        assert run([cell]) == ["failed with exit code 2: Traceback ...\nerror: no such data"]
    assert cell.status == "missing"
    assert run_all(STUDY, [cell, *others], [cell, *others], tmp_path, 1) == 2
    assert "plain, a, seed 0: failed with exit code 2" in capsys.readouterr().out


def test_figures_are_drawn_after_all_runs_and_again(tmp_path, monkeypatch):
    calls = fake_runs(monkeypatch)
    drawn = []
    study = replace(STUDY, draw=[lambda folder: drawn.append((folder, len(calls)))])
    made = cells(study, tmp_path, 2)
    assert run_all(study, made, made, tmp_path, 2) == 0
    assert run_all(study, made, made, tmp_path, 1) == 0
    assert drawn == [(tmp_path, 4), (tmp_path, 4)]
    assert (tmp_path / "table.md").exists()


def test_rows_that_are_not_run_stay_in_the_table(tmp_path, monkeypatch):
    calls = fake_runs(monkeypatch)
    made = cells(STUDY, tmp_path, 1)
    assert run_all(STUDY, made, made[1:], tmp_path, 1) == 0
    assert ["--config=configs/jem_digits.py:mala" in command for command in calls] == [True]
    assert "| plain, a | - | - | - | 0 | 0 | 0 |" in (tmp_path / "table.md").read_text()


def test_a_study_says_what_it_will_run_and_how_a_run_ends(tmp_path, monkeypatch, capsys):
    fake_runs(monkeypatch)
    made = cells(STUDY, tmp_path, 2)
    run_all(STUDY, made, made[:1], tmp_path, 1)
    first = capsys.readouterr().out.splitlines()
    assert first[0] == "1 run"
    assert first[1].endswith(" plain, a, seed 0: done; 1 of 1")
