"""The one reader of a study's folder."""

import json

import pytest
from experiment_runs import REPOSITORY

from ebmjax.recipes.study import reader

RECIPES = REPOSITORY / "ebmjax" / "recipes"


def make(folder, **files):
    """A run's folder with ``files``, by their names without the suffix."""
    folder.mkdir(parents=True)
    for name, (suffix, text) in files.items():
        (folder / f"{name}.{suffix}").write_text(text)


@pytest.fixture
def study(tmp_path):
    """Two rows: one with seeds 0, 2 and 10, of which 2 diverged; one that has only begun."""
    for seed in (0, 10):
        make(
            tmp_path / "JEM,_K_=_5" / f"seed{seed}",
            config=("json", '{"family": "jem", "seed": 0}'),
            summary=("json", json.dumps({"steps": 7, "seed": seed})),
            evaluation=("json", json.dumps({"accuracy": 0.5, "seed": seed})),
        )
    diverged, report = ("txt", "Training diverged"), ("json", "{}")
    make(tmp_path / "JEM,_K_=_5" / "seed2", diverged=diverged, evaluation=report)
    make(tmp_path / "begun" / "seed0", metrics=("jsonl", '{"step": 1, "loss": 2.0}\n'))
    (tmp_path / "figures").mkdir()
    return tmp_path


def test_rows_and_their_runs_by_seed(study):
    assert reader.row_names(study) == ["JEM,_K_=_5", "begun"]
    for row in ("JEM, K = 5", "JEM,_K_=_5"):
        found = reader.runs(study, row)
        assert [run.folder.name for run in found] == ["seed0", "seed2", "seed10"]
        assert [run.status for run in found] == ["done", "diverged", "done"]
        assert [run.folder.name for run in reader.done(study, row)] == ["seed0", "seed10"]
    assert reader.runs(study, "nothing") == []
    assert reader.first(study, "nothing").status == reader.first(study, "begun").status == "missing"


def test_what_a_run_left(study):
    run = reader.done(study, "JEM, K = 5")[-1]
    assert run.config() == {"family": "joint", "seed": 0}  # by its name of today
    assert run.evaluation() == {"accuracy": 0.5, "seed": 10}
    assert run.numbers() == {"steps": 7, "accuracy": 0.5, "seed": 10}
    assert run.logged() == run.snapshots() == []
    begun = reader.first(study, "begun")
    assert begun.logged() == [{"step": 1, "loss": 2.0}]
    assert begun.numbers() == begun.evaluation() == {}


@pytest.fixture
def former(tmp_path):
    """Runs of the former command of the tuning study: a folder a run, named after its seed."""
    rows = "".join(json.dumps({"step": k, "loss": k, "skipped": 0}) + "\n" for k in range(1, 31))
    for seed, diverged in ((0, False), (10, False), (2, True)):
        make(
            tmp_path / f"literal-step0.09-seed{seed}",
            config=("json", '{"family": "jem", "seed": 0}'),
            summary=("json", json.dumps({"diverged": diverged, "sound_updates": 30})),
            metrics=("jsonl", rows),
        )
    make(tmp_path / "literal-step0.09-smoothing5-seed0", config=("json", "{}"))
    return tmp_path


def test_rows_and_runs_of_the_former_command(former):
    assert reader.row_names(former) == ["literal-step0.09", "literal-step0.09-smoothing5"]
    found = reader.runs(former, "literal-step0.09")
    assert [run.status for run in found] == ["done", "diverged", "done"]
    assert found[0] == reader.first(former, "literal-step0.09")
    assert reader.first(former, "literal-step0.09-smoothing5").status == "missing"  # interrupted


def test_numbers_of_the_former_command_are_under_the_names_of_today(former):
    run = reader.first(former, "literal-step0.09")
    numbers = run.numbers()
    assert numbers["over_training"]["last"]["loss"] == pytest.approx(20.5)  # of 11 to 30
    assert (numbers["skipped"], numbers["sound_updates"]) == (0, 30)
    assert run.config()["family"] == "joint"
    assert len(run.logged()) == 30


def test_nothing_else_looks_for_the_runs_of_a_study():
    looking = [p.name for p in RECIPES.rglob("*.py") if 'seed*"' in p.read_text()]
    assert looking == ["reader.py"]
