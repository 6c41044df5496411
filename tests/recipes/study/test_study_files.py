"""Study files, arguments and folders: what is found, and what is refused before a run."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from study_problem import STUDY, made_before

from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder.run_folder import as_json, write_json
from ebmjax.recipes.study import command
from ebmjax.recipes.study.cells import (
    Cell,
    cells,
    find_runs,
    folder_name,
    load,
)
from experiments.configs import jem_digits


@pytest.fixture
def study(tmp_path, monkeypatch, capsys):
    """Runs ``ebmjax study`` on a file of this text in an empty folder; returns its code and words.

    No run begins.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run_all", lambda *_: 0)

    def study(text, *arguments):
        head = "from ebmjax.recipes.study import Study\nROWS = {'row': 'joint'}\n"
        Path("own.py").write_text(head * ("Study(" in text) + text)
        monkeypatch.setattr(sys, "argv", ["study.py", "--study=own.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        printed = capsys.readouterr()
        return ended.value.code, printed.err if ended.value.code else printed.out

    return study


def test_a_study_file_has_variants(tmp_path):
    path = tmp_path / "several.py"
    path.write_text(
        "from ebmjax.recipes.study import Study\n"
        "rows = {'row': 'joint'}\n"
        "STUDIES = {'': Study(rows, {}, num_seeds=1), 'quick': Study(rows, {}, num_seeds=2)}\n"
    )
    assert (load(str(path)).num_seeds, load(f"{path}:quick").num_seeds) == (1, 2)
    with pytest.raises(ConfigError, match=r"no variant 'slow'. There .*several.py, .*py:quick\."):
        load(f"{path}:slow")
    with pytest.raises(SystemExit, match=r"no study file 'nothing.py' .*studies/jem_digits\.py"):
        load("nothing.py")
    with pytest.raises(SystemExit, match=r"Did you mean 'jem_digits'.* `ebmjax list` prints all"):
        load("jem_digit.py")


FILES = {
    "STUDY = 3": "own.py must define STUDY, a Study",
    "\n\nx = (": "own.py, line 3: SyntaxError: '(' was never closed",
    "import nowhere": "own.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
    "STUDY = Study(ROWS)": "own.py, line 3: TypeError",
    "STUDY = Study({}, {})": "rows must be a dict of a row or more; got {}",
    "STUDY = Study({'a': 3}, {})": "row 'a' must be 'CONFIG[:VARIANT]', or a list of it",
    "STUDY = Study({'a': ['joint', 'seed=3']}, {})": "'seed=3' must be --config.FIELD=VALUE",
    "STUDY = Study(ROWS, {'acc': 'accuracy'})": "column 'acc' must be (name, factor, decimals)",
    "STUDY = Study(ROWS, {}, num_seeds=0)": "num_seeds must be an integer of at least 1; got 0",
    "STUDY = Study(ROWS, {}, common=('--config.seed=3',))": "of a field other than the seed",
    "STUDY = Study(ROWS, {}, draw=print)": "draw must be a tuple of functions",
}


@pytest.mark.parametrize("text", FILES)
def test_mistakes_in_a_study_file_are_named(text, study):
    code, words = study(text)
    assert code == 2
    assert FILES[text] in words
    assert len(words.splitlines()) == 1
    assert [path.name for path in Path().iterdir()] == ["own.py"]


ROWS = {
    "'configs/nothing.py'": "no configuration file 'configs/nothing.py'",
    "['thermo_digits', '--config.train.num_epoch=3']": "num_epoch is no field",
    "['joint', '--config.data.path=no.npz', '--config.data.name=npz']": "no.npz does not exist",
    "['joint', '--config.train.start_from=runs/no']": "runs/no does not exist",
    "['joint', '--config.model.factory=own.py:mke']": "must name a function of 'own.py'",
    "['joint', '--config.data.name=mnistt']": "config.data.name='mnistt'",
    "['joint', '--config.data.path=own.py', '--config.data.name=npz']": "split train",
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_that_cannot_be_run_is_told_before_the_others_run(row, study):
    code, words = study(f"STUDY = Study(ROWS | {{'bad': {row}}}, {{}})")
    assert code == 2
    assert words.startswith("error: row 'bad': ")
    assert ROWS[row] in words
    assert not Path("runs").exists()


def test_data_of_a_finished_row_may_be_gone(study):
    row = ["joint", "--config.data.name=npz", "--config.data.path=gone.npz"]
    text = f"STUDY = Study({{'a': {row}}}, {{}}, num_seeds=1)"
    assert study(text)[0] == 2
    made_before(load("own.py"), Path("runs/studies/own"))
    assert study(text)[0] == 0


def test_a_dry_run_prints_the_plan_and_makes_nothing(study):
    text = "STUDY = Study({'row': 'joint', 'two': 'joint:smoke'}, {'a': ('accuracy', 1.0, 1)})"
    code, words = study(text, "--seeds=2", "--dry_run")
    assert code == 0
    head, *runs = words.splitlines()
    assert head == "4 of 4 runs"
    assert runs[0].startswith("row, seed 0: --config=joint --config.seed=0 --workdir=runs/studies")
    assert runs[3].startswith("two, seed 1: --config=joint:smoke ")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--seeds=0", "argument --seeds: invalid count value: '0'"),
        ("--folder=taken", "--folder=taken cannot be used: "),
        ("new", "'new' must be --config.FIELD=VALUE"),
        ("--rows=ros*", "--rows=['ros*'] matches no row of the study: `ebmjax list own.py`"),
        ("--config.seed=3", "of a field other than the seed: see --seeds"),
        ("--other=5", "'--other=5' must be --config.FIELD=VALUE"),
    ],
)
def test_arguments_that_cannot_be(argument, expected, study):
    Path("taken").touch()
    code, words = study("STUDY = Study(ROWS, {})", "--folder=new", argument)  # the last one counts
    assert code == 2
    assert expected in words
    assert not Path("new").exists()


def test_a_diverged_run_stays_one_when_its_best_state_is_evaluated(tmp_path):
    cell = made_before(STUDY, tmp_path)
    cell.check()
    assert cell.status == "done"
    (cell.folder / "diverged.txt").write_text("Training diverged")
    assert cell.status == "diverged"


@pytest.mark.parametrize("ended", ["done", "diverged"])
def test_a_folder_of_another_configuration_is_not_of_the_study(ended, tmp_path):
    """Its numbers would stand in the table under the name of this one."""
    cell = made_before(STUDY, tmp_path)
    if ended == "diverged":
        (cell.folder / "evaluation.json").unlink()
        (cell.folder / "diverged.txt").write_text("Training diverged")
    changed = replace(STUDY, common=(*STUDY.common, "--config.train.batch_size=32"))
    (now, *_) = cells(changed, tmp_path, 1)
    assert now.status == ended
    with pytest.raises(WorkdirError, match=r"train\.batch_size was \d+ and is now 32"):
        now.check()


def test_an_evaluation_of_other_fields_is_not_of_the_study(tmp_path):
    cell = made_before(STUDY, tmp_path)
    changed = as_json(cell.config)["evals"] | {"batch_size": 7}
    write_json(cell.folder / "evaluation.json", {"evals": changed})
    with pytest.raises(
        WorkdirError, match=r"another config\.evals: evals\.batch_size was 7 and is now"
    ):
        cell.check()


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ([], None),
        (["--config.data.path=/elsewhere"], None),
        (["--config.train.batch_size=32"], "train.batch_size was 64 and is now 32"),
    ],
)
def test_a_folder_is_continued_with_what_it_was_begun_with(given, refusal, study, tmp_path):
    common = ("--config.train.num_epochs=9", "--config.data.name=npz")
    made_before(replace(STUDY, common=common), tmp_path / "runs")
    text = "STUDY = Study({'plain, a': 'configs/jem_digits.py'}, {}, num_seeds=1)"
    code, words = study(text, "--folder=runs", *common, *given)
    assert code == (2 if refusal else 0)
    assert (refusal or "") in words


CONFIG = as_json(jem_digits.get_config())


def make(folder, **files):
    """A run's folder with ``files``, by their names without the suffix."""
    folder.mkdir(parents=True)
    for name, (suffix, text) in files.items():
        (folder / f"{name}.{suffix}").write_text(text)


@pytest.fixture
def folder(tmp_path):
    """Two rows: one with seeds 0, 2 and 10, of which 2 diverged; one that has only begun."""
    for seed in (0, 10):
        make(
            tmp_path / "JEM,_K_=_5" / f"seed{seed}",
            config=("json", json.dumps(CONFIG)),
            summary=("json", json.dumps({"steps": 7, "seed": seed})),
            evaluation=("json", json.dumps({"accuracy": 0.5, "seed": seed})),
        )
    diverged, report = ("txt", "Training diverged"), ("json", "{}")
    make(tmp_path / "JEM,_K_=_5" / "seed2", diverged=diverged, evaluation=report)
    make(tmp_path / "begun" / "seed0", metrics=("jsonl", '{"step": 1, "loss": 2.0}\n'))
    (tmp_path / "figures").mkdir()
    return tmp_path


def test_rows_and_their_runs_by_seed(folder):
    found = find_runs(folder)
    assert [*found] == ["JEM,_K_=_5", "begun"]
    runs = found[folder_name("JEM, K = 5")]
    assert [run.folder.name for run in runs] == ["seed0", "seed2", "seed10"]
    assert [run.status for run in runs] == ["done", "diverged", "done"]
    assert Cell(folder / "nothing").status == found["begun"][0].status == "missing"


def test_what_a_run_left(folder):
    found = find_runs(folder)
    assert found["JEM,_K_=_5"][-1].numbers() == {"steps": 7, "accuracy": 0.5, "seed": 10}
    assert found["begun"][0].numbers() == {}


def test_a_run_that_was_evaluated_before_its_end_is_not_done(tmp_path):
    make(tmp_path / "row" / "seed0", evaluation=("json", '{"is_finished": false}'))
    assert find_runs(tmp_path)["row"][0].status == "missing"
