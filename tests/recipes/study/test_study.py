"""experiments/study.py: which runs it starts, and which it skips."""

import subprocess
import sys
from dataclasses import replace

import pytest
from study_problem import STUDY, Finished, fake_runs, run

from ebmjax.recipes.core.fields import ConfigError
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import cells, from_both_ends
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
        "--config.eval.num_ood=0",
        "--config.train.num_epochs=3",
        "--config.seed=1",
        f"--workdir={tmp_path}/other-b/seed1",
        "--mode=all",
    ]
    assert len({cell.folder for cell in made}) == 4
    assert [cell.config.seed for cell in made] == [0, 0, 1, 1]


def test_what_the_command_line_says_counts_before_what_a_row_says(tmp_path):
    given = ["--config.train.num_epochs=7", "--config.eval.num_ood=2"]
    made = cells(STUDY, tmp_path, 1, given)
    assert [cell.config.train.num_epochs for cell in made] == [7, 7]
    assert [cell.config.eval.num_ood for cell in made] == [2, 2]
    assert made[1].command[4:-3] == [
        "--config=configs/jem_digits.py:mala",
        "--config.eval.num_ood=0",
        "--config.train.num_epochs=3",
        *given,
    ]


def test_runs_of_several_repeats_share_no_seed(tmp_path):
    """The repeats of a row stand in its own arguments, in the common ones, or in its file."""
    (tmp_path / "nine.py").write_text(
        "from experiments.configs import thermo_digits\n"
        "def get_config(variant=''):\n"
        "    config = thermo_digits.get_config(variant)\n"
        "    config.train.num_repeats = 9\n"
        "    return config\n"
    )
    repeats = "--config.train.num_repeats="
    rows = {
        "common": "configs/thermo_digits.py:vanilla",
        "own": ["configs/thermo_digits.py", f"{repeats}2"],
    }
    files = {
        "file": f"{tmp_path}/nine.py:vanilla",
        "default": "configs/thermo_digits.py",
        "without": "configs/jem_digits.py",
    }

    def seeds(study):
        made = cells(study, tmp_path, 3)
        for cell in made:
            assert f"--config.seed={cell.seed}" in cell.command
            assert cell.folder.name == f"seed{cell.seed}"
        return {label: [c.seed for c in made if c.label == label] for label in study.rows}

    study = Study(rows=rows, columns={}, common=(f"{repeats}5",))
    assert seeds(study) == {"common": [0, 5, 10], "own": [0, 2, 4]}
    assert seeds(Study(rows=files, columns={})) == {
        "file": [0, 9, 18],
        "default": [0, 1, 2],
        "without": [0, 1, 2],
    }


@pytest.mark.parametrize(
    ("labels", "order"), [("", ""), ("a", "a"), ("ab", "ab"), ("abcde", "aebdc"), ("abcd", "adbc")]
)
def test_neighbours_in_the_table_do_not_start_together(labels, order):
    assert "".join(from_both_ends(labels)) == order


def test_two_rows_of_one_folder_are_refused(tmp_path):
    rows = dict.fromkeys(("a/b c", "other", "a-b_c"), "configs/thermo_digits.py")
    with pytest.raises(ConfigError, match=r"rows 'a/b c' and 'a-b_c' .* the folder 'a-b_c'"):
        cells(Study(rows, {}), tmp_path, 1)


def test_what_is_done_or_diverged_is_not_run_again(tmp_path, monkeypatch):
    calls = fake_runs(monkeypatch)
    made = cells(STUDY, tmp_path, 2)
    assert run(made) == ["done", "done", "done", "diverged"]
    assert len(calls) == 4
    assert run(made) == ["done", "done", "done", "diverged"]
    assert len(calls) == 4


def test_a_run_that_fails_is_told_and_stays_missing(tmp_path, monkeypatch):
    failed = Finished(2, "Traceback ...\nerror: no such data")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: failed)
    (cell, *_) = cells(STUDY, tmp_path, 1)
    for _ in range(2):
        assert run([cell]) == ["failed with exit code 2: Traceback ...\nerror: no such data"]
    assert cell.status == "missing"


def test_figures_are_drawn_after_all_runs_and_again(tmp_path, monkeypatch):
    calls = fake_runs(monkeypatch)
    drawn = []
    study = replace(STUDY, draw=lambda folder: drawn.append((folder, len(calls))))
    made = cells(study, tmp_path, 2)
    assert run_all(study, made, tmp_path, 2) == 0
    assert run_all(study, made, tmp_path, 1) == 0
    assert drawn == [(tmp_path, 4), (tmp_path, 4)]
    assert (tmp_path / "table.md").exists()


def test_rows_are_chosen_by_their_labels(tmp_path, monkeypatch):
    calls = fake_runs(monkeypatch)
    made = cells(STUDY, tmp_path, 1)
    assert run_all(STUDY, made, tmp_path, 1, ["other/?", "nothing*"]) == 0
    assert ["--config=configs/jem_digits.py:mala" in command for command in calls] == [True]
    assert "| plain, a | - | - | - | 0 | 0 |" in (tmp_path / "table.md").read_text()


def test_failures_are_counted(tmp_path, monkeypatch, capsys):
    failed = Finished(2, "error: no such data")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: failed)
    assert run_all(STUDY, cells(STUDY, tmp_path, 1), tmp_path, 1) == 2
    assert "plain, a, seed 0: failed with exit code 2" in capsys.readouterr().out
