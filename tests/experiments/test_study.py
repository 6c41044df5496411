"""experiments/study.py: what it runs, what it skips, and the table."""

import json
import statistics
import subprocess
import sys
from types import SimpleNamespace

import pytest
from experiment_runs import EXPERIMENTS, strict_json

from experiments import study as studies
from experiments.study import Study, as_markdown, cells, load, run, table, write

STUDY = Study(
    rows={
        "plain, a": "configs/a.py",
        "other/b": ["configs/b.py:variant", "--config.train.num_epochs=3"],
    },
    columns={
        "accuracy | %": ("classification.accuracy", 100.0, 1),
        "seconds": ("run_seconds", 1.0, 0),
        "absent": ("nowhere.to.be.found", 1.0, 2),
    },
    num_seeds=2,
    common=("--config.eval.num_ood=0",),
)


@pytest.fixture
def calls(monkeypatch):
    """Stands in for the runs: seed 1 of the second row diverges; the rest write their numbers."""
    made = []

    def fake(command, **options):
        made.append(command)
        argument = dict(part.split("=", 1) for part in command if part.startswith("--"))
        folder, seed = studies.Path(argument["--workdir"]), int(argument["--config.seed"])
        folder.mkdir(parents=True)
        if seed == 1 and "b.py" in argument["--config"]:
            return SimpleNamespace(returncode=1, stderr="error: Training diverged: the last 20")
        (folder / "summary.json").write_text(json.dumps({"run_seconds": 10.0 + seed}))
        numbers = {"classification": {"accuracy": 0.5 + 0.25 * seed}}
        (folder / "evaluation.json").write_text(json.dumps(numbers))
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(subprocess, "run", fake)
    return made


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
        str(EXPERIMENTS / "run.py"),
        "--config=configs/b.py:variant",
        "--config.eval.num_ood=0",
        "--config.train.num_epochs=3",
        "--config.seed=1",
        f"--workdir={tmp_path}/other-b/seed1",
        "--mode=all",
    ]
    assert len({cell.folder for cell in made}) == 4


def test_what_is_done_or_diverged_is_not_run_again(tmp_path, calls):
    made = cells(STUDY, tmp_path, 2)
    assert [run(cell) for cell in made] == ["done", "done", "done", "diverged"]
    assert len(calls) == 4
    assert [run(cell) for cell in made] == ["done", "done", "done", "diverged"]
    assert len(calls) == 4


def test_a_run_that_fails_is_told_and_stays_missing(tmp_path, monkeypatch):
    failed = SimpleNamespace(returncode=2, stderr="Traceback ...\nerror: no such data")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: failed)
    (cell, *_) = cells(STUDY, tmp_path, 1)
    assert run(cell).endswith("error: no such data")
    assert "exit code 2" in run(cell)
    assert cell.status == "missing"


def test_the_table_has_mean_spread_and_divergences(tmp_path, calls):
    made = cells(STUDY, tmp_path, 2)
    for cell in made:
        run(cell)
    found = table(STUDY, made)
    assert found["plain, a"]["accuracy | %"] == [50.0, 75.0]
    assert found["plain, a"]["seconds"] == [10.0, 11.0]
    assert (found["other/b"]["finished"], found["other/b"]["diverged"]) == (1, 1)
    lines = as_markdown(STUDY, found).splitlines()
    assert lines[0] == "|  | accuracy \\| % | seconds | absent | seeds | diverged |"
    spread = statistics.stdev([50.0, 75.0])
    assert lines[2] == f"| plain, a | 62.5 ± {spread:.1f} | 10 ± 1 | - | 2 | 0 |"
    assert lines[3] == "| other/b | 50.0 | 10 | - | 2 | 1 |"
    write(STUDY, made, tmp_path)
    assert (tmp_path / "table.md").read_text().splitlines() == lines
    assert strict_json((tmp_path / "table.json").read_text()) == found


def test_a_study_file_is_found_from_experiments():
    loaded = load("studies/jem_digits.py")
    assert loaded.num_seeds == 5
    assert "JEM, SGLD" in loaded.rows


def test_other_files_are_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no study file 'nothing.py'. There are studies/jem_"):
        load("nothing.py")
    (tmp_path / "empty.py").write_text("STUDY = 3")
    with pytest.raises(SystemExit, match="must define STUDY"):
        load(str(tmp_path / "empty.py"))


def test_the_rows_of_every_study_exist():
    for path in (EXPERIMENTS / "studies").glob("*.py"):
        for row in load(str(path)).rows.values():
            config, _, variant = (row if isinstance(row, str) else row[0]).partition(":")
            namespace = {"__name__": "config"}
            exec((EXPERIMENTS / config).read_text(), namespace)
            assert namespace["get_config"](variant).family
