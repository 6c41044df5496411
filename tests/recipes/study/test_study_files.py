"""Study files and arguments: what is found, and what is refused before a run."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from study_problem import STUDY, made_before

from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.folder.workdir import prepare, write_json
from ebmjax.recipes.study import Study, command
from ebmjax.recipes.study.cells import cells, default_folder, load
from ebmjax.recipes.study.command import main


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
    with pytest.raises(ConfigError, match=r"no variant 'quick'. There are lebm_digits\."):
        load("lebm_digits:quick")
    assert default_folder("studies/several.py") == Path("runs/studies/several")
    assert default_folder("several:quick") == Path("runs/studies/several_quick")


@pytest.fixture(autouse=True)
def no_run(monkeypatch):
    """A mistake that is not found would start runs, which take minutes."""

    def begin(*_):
        raise AssertionError("a run would begin")

    monkeypatch.setattr(command, "run_all", begin)


FILES = {
    "STUDY = 3": "own.py must define STUDY, a Study",
    "\n\nx = (": "own.py, line 3: SyntaxError: '.' was never closed",
    "import nowhere": "own.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
    "STUDY = Study(ROWS)": r"line 3: TypeError: .*missing .* 'columns'",
    "STUDY = Study({}, {})": "rows must be a dict of a row or more; got {}",
    "STUDY = Study({'a\\nb': 'joint'}, {})": "the label of a row must be a line of text; got",
    "STUDY = Study({'..': 'joint'}, {})": r"need another folder than '\.\.'",
    "STUDY = Study({'a': 'joint', 'A': 'joint'}, {})": "rows 'a' and 'A' need another fol",
    "STUDY = Study({'a': 3}, {})": r"row 'a' must be 'CONFIG\[:VARIANT\]', or a list of it.*got 3",
    "STUDY = Study({'a': ['joint', 'seed=3']}, {})": "row 'a' has 'seed=3', but only --config",
    "STUDY = Study(ROWS, ['fid'])": r"columns must be a dict; got \['fid'\]",
    "STUDY = Study(ROWS, {'acc': 'accuracy'})": r"column 'acc' must be \(name, factor, decimals\)",
    "STUDY = Study(ROWS, {'acc': ('accuracy', float('nan'), 1)})": "column 'acc' must be",
    "STUDY = Study(ROWS, {}, num_seeds=0)": "num_seeds must be an integer of at least 1; got 0",
    "STUDY = Study(ROWS, {}, common='--config.a=1')": "common must be a tuple",
    "STUDY = Study(ROWS, {}, common=('--config.seed=3',))": "common has .*runs have seeds 0",
}


@pytest.mark.parametrize("text", FILES)
def test_mistakes_in_a_study_file_are_named(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    head = "from ebmjax.recipes.study import Study\nROWS = {'row': 'joint'}\n"
    Path("own.py").write_text(head * ("Study(" in text) + text)
    monkeypatch.setattr(sys, "argv", ["study.py", "--study=own"])
    with pytest.raises(SystemExit, match=FILES[text]) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{ended.value}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["own.py"]


def test_a_file_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(SystemExit, match=r"no study file 'nothing.py' .*studies/jem_digits\.py"):
        load("nothing.py")
    with pytest.raises(SystemExit, match=r"Did you mean 'jem_digits'.* `ebmjax list` prints all"):
        load("jem_digit.py")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("configs/nothing.py", "no configuration file 'configs/nothing.py'"),
        (["thermo_digits", "--config.train.num_epoch=3"], ".*num_epoch is no field.*num_epochs"),
        (["thermo_digits", "--config.train.batch_size=0"], "config.train.batch_size must be"),
        (["joint", "--config.loss.name=nowhere.py:loss"], ".*nowhere.py"),
    ],
)
@pytest.mark.parametrize("common", [(), ("--config.train.log_every=2",)])
def test_a_row_that_cannot_be_run_is_told_before_the_others_run(row, common, expected, tmp_path):
    rows = {"good": "configs/thermo_digits.py", "bad": row}
    with pytest.raises(SystemExit, match=f"error: row 'bad': {expected}") as ended:
        cells(Study(rows, {}, common=common), tmp_path, 1)
    assert ended.value.code == 2


def test_a_dry_run_prints_the_plan_and_makes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        "from ebmjax.recipes.study import Study\n"
        "STUDY = Study({'row': 'joint', 'two': 'joint:smoke'}, {'a': ('accuracy', 1.0, 1)})\n"
    )
    monkeypatch.setattr(sys, "argv", ["study.py", "--study=own.py", "--seeds=2", "--dry_run"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    head, *runs = capsys.readouterr().out.splitlines()
    assert head == "2 rows x 2 seeds = 4 runs, 1 at a time"
    assert runs[0].startswith("row, seeds 0, 1: --config=joint --config.seed=0 --workdir=runs/stu")
    assert runs[1].startswith("two, seeds 0, 1: --config=joint:smoke ")
    assert not Path("runs").exists()


NAMED = {
    "--config.data.path=no.npz --config.data.name=npz": r"data\.path=no\.npz does not exist",
    "--config.evals.inception_weights=no.npz": r"inception_weights=no\.npz does not",
    "--config.train.start_from=runs/no": r"config\.train\.start_from=runs/no does not exist",
    "--config.model.factory=own.py:mke": r"'own\.py:mke' must name a function of 'own\.py'",
    "--config.data.name=mnistt": r"config\.data\.name='mnistt', .*tensorflow-datasets",
    "--config.data.path=own.py --config.data.name=npz": r"\.path=.own\.py., split train",
    "--config.data.path=abc --config.data.name=folder --config.data.holdout=0": "no folder 'test'",
}


@pytest.mark.parametrize("arguments", NAMED)
@pytest.mark.parametrize("is_done", [False, True])
def test_what_a_row_names_must_be_there_before_the_first_run(
    arguments, is_done, tmp_path, monkeypatch, capsys
):
    """For rows that still have to run: the data of finished ones may be gone."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("def make():\n    pass\n")
    Path("abc/a").mkdir(parents=True)
    Path("abc/a/one.png").touch()
    Path("study.py").write_text(
        "from ebmjax.recipes.study import Study\n"
        f"ROWS = {{'good': 'joint', 'bad': ['joint', *{arguments.split()}]}}\n"
        "STUDY = Study(ROWS, {}, num_seeds=1)\n"
    )
    monkeypatch.setattr(command, "run_all", lambda *_: 0)
    if is_done:
        (_, cell) = cells(load("study.py"), Path("runs/studies/study"), 1)
        prepare(cell.folder, cell.config)
        write_json(cell.folder / "evaluation.json", {"evals": as_json(cell.config)["evals"]})
    monkeypatch.setattr(sys, "argv", ["study.py", "--study=study.py"])
    with pytest.raises(SystemExit, match=None if is_done else NAMED[arguments]) as ended:
        main()
    assert ended.value.code == (0 if is_done else 2)
    if not is_done:
        assert str(ended.value).startswith("error: row 'bad': ")
        assert capsys.readouterr().err == f"{ended.value}\n"
        assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--seeds=0", r"error: --seeds must be at least 1, got 0\."),
        ("--folder=taken", r"error: --folder=taken cannot be used: .*File exists"),
        ("new", r"error: unexpected argument 'new': only --config\.FIELD=VALUE changes a field of"),
        ("--rows=ros*", r"error: --rows='ros\*' matches no row .*mean 'row'\?"),
        ("--sedes=1", r"error: unexpected argument '--sedes=1': "),
        ("--config.train.epochs=3", r"error: .*config.train.epochs is no field"),
        ("--config.seed=3", r"error: .*runs have seeds 0, 1, \.\.\.: --seeds=N"),
        ("--folder=other", r"other cannot be used: its table.json is of another .* row 'theirs'"),
        ("--folder=cut", r"cut cannot be used: cut/table.json is not a JSON object as ebmjax"),
    ],
)
def test_arguments_that_cannot_be(argument, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text(
        "from ebmjax.recipes.study import Study\n"
        "STUDY = Study({'row': 'configs/toy_beta.py'}, {})\n"
    )
    Path("taken").touch()
    Path("other").mkdir()
    Path("cut").mkdir()
    Path("cut/table.json").write_text('{"row": ')
    Path("other/table.json").write_text(json.dumps({"row": {}, "theirs": {}}))
    arguments = ["study.py", "--study=good.py", "--folder=new", argument]
    monkeypatch.setattr(sys, "argv", arguments)  # the last one counts
    with pytest.raises(SystemExit, match=expected):
        main()
    assert not Path("new").exists()
    assert json.loads(Path("other/table.json").read_text()).keys() == {"row", "theirs"}


def test_a_diverged_run_stays_one_when_its_best_state_is_evaluated(tmp_path):
    cell = made_before(STUDY, tmp_path)
    (cell.folder / "diverged.txt").write_text("Training diverged")
    assert cell.status == "diverged"


def test_a_folder_of_the_same_configuration_is_of_the_study(tmp_path):
    cell = made_before(STUDY, tmp_path)
    cell.check()
    assert cell.status == "done"


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


def test_a_study_in_a_folder_of_another_ends_before_it_runs_anything(tmp_path, monkeypatch, capsys):
    made_before(STUDY, tmp_path)
    path = tmp_path / "changed.py"
    path.write_text(
        "from ebmjax.recipes.study import Study\n"
        "rows = {'plain, a': 'configs/jem_digits.py', 'new': 'configs/jem_digits.py:mala'}\n"
        "STUDY = Study(rows, {}, num_seeds=1)\n"
    )
    monkeypatch.setattr(sys, "argv", ["study.py", f"--study={path}", f"--folder={tmp_path}"])
    with pytest.raises(SystemExit, match=r"error: --workdir .*seed0 .*evals\.ood\.every was"):
        main()
    assert {one.name for one in tmp_path.iterdir()} == {"plain,_a", "changed.py"}


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ([], None),
        (["--config.data.path=/elsewhere"], None),
        (["--config.train.batch_size=32"], r"train\.batch_size was 64 and is now 32"),
    ],
)
def test_a_folder_is_continued_with_what_it_was_begun_with(given, refusal, tmp_path, monkeypatch):
    common = ("--config.train.num_epochs=9", "--config.data.name=npz")
    made_before(replace(STUDY, common=common), tmp_path)
    path = tmp_path / "same.py"
    path.write_text(
        "from ebmjax.recipes.study import Study\n"
        "STUDY = Study({'plain, a': 'configs/jem_digits.py'}, {}, num_seeds=1)\n"
    )
    monkeypatch.setattr(command, "run_all", lambda *_: 0)
    arguments = [f"--study={path}", f"--folder={tmp_path}", *common, *given]
    monkeypatch.setattr(sys, "argv", ["study.py", *arguments])
    with pytest.raises(SystemExit, match=refusal and f"error: .*{refusal}") as ended:
        main()
    assert refusal or ended.value.code == 0
