"""The one reader of a study's folder."""

import json

import pytest

from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.study import reader
from experiments.configs import jem_digits

CONFIG = jem_digits.get_config()


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
            config=("json", json.dumps(as_json(CONFIG))),
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
        assert [run.folder.name for run in reader.find_done(study, row)] == ["seed0", "seed10"]
    assert reader.runs(study, "nothing") == []
    assert reader.first(study, "nothing").status == reader.first(study, "begun").status == "missing"


def test_what_a_run_left(study):
    run = reader.find_done(study, "JEM, K = 5")[-1]
    assert run.config() == as_json(CONFIG)
    assert run.evaluation() == {"accuracy": 0.5, "seed": 10}
    assert run.numbers() == {"steps": 7, "accuracy": 0.5, "seed": 10}
    assert run.read_metrics() == run.snapshots() == []
    begun = reader.first(study, "begun")
    assert begun.read_metrics() == [{"step": 1, "loss": 2.0}]
    assert begun.numbers() == begun.evaluation() == {}


def test_a_run_that_was_evaluated_before_its_end_is_not_done(tmp_path):
    make(tmp_path / "row" / "seed0", evaluation=("json", '{"is_finished": false}'))
    assert reader.first(tmp_path, "row").status == "missing"
