"""Study files and arguments: what is found, and what is refused before a run."""

import json
import re
import sys
from pathlib import Path

import pytest
from experiment_runs import EXPERIMENTS

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.folder.workdir import prepare, write_json
from ebmjax.recipes.study import Study, command
from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.command import main
from ebmjax.recipes.study.study_file import default_folder, load, read


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
    "STUDIES = {}": "own.py must define STUDY, a Study",
    "\n\nx = (": "own.py, line 3: SyntaxError: '.' was never closed",
    "import nowhere": "own.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
    "STUDY = Study(ROWS)": r"line 3: TypeError: .*missing .* 'columns'",
    "STUDY = Study({}, {})": "rows must be a dict of at least one row; got {}",
    "STUDY = Study(['joint'], {})": r"rows must be a dict; got \['joint'\]",
    "STUDY = Study({'a\\nb': 'joint'}, {})": "the label of a row must be a line of text; got",
    "STUDY = Study({'..': 'joint'}, {})": r"need another folder than '\.\.'",
    "STUDY = Study({'a': 'joint', 'A': 'joint'}, {})": "rows 'a' and 'A' need another fol",
    "STUDY = Study({'a': 3}, {})": r"row 'a' must be 'CONFIG\[:VARIANT\]', or a list of it.*got 3",
    "STUDY = Study({'a': ['joint', 'seed=3']}, {})": "row 'a' has 'seed=3', but only --config",
    "STUDY = Study({'a': ['joint', '--config.seed=3']}, {})": "row 'a' has .*seed is each run's",
    "STUDY = Study(ROWS, ['fid'])": r"columns must be a dict; got \['fid'\]",
    "STUDY = Study(ROWS, {'acc': 'accuracy'})": r"column 'acc' must be \(name, factor, decimals\)",
    "STUDY = Study(ROWS, {'acc': ('accuracy', float('nan'), 1)})": "column 'acc' must be",
    "STUDY = Study(ROWS, {'acc': ('accuracy', 1, -1)})": "column 'acc' must be",
    "STUDY = Study(ROWS, {3: ('a', 1, 1)})": "the heading of a column, 3, must be text",
    "STUDY = Study(ROWS, {}, num_seeds=0)": "num_seeds must be an integer of at least 1; got 0",
    "STUDY = Study(ROWS, {}, common='--config.a=1')": "common must be a tuple",
    "STUDY = Study(ROWS, {}, common=('-v',))": "common has '-v', but only --config.FIELD=VALUE",
    "STUDY = Study(ROWS, {}, draw=3)": "draw must be a function or None; got 3",
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


STUDIES = [
    (path.name, variant)
    for path in sorted((EXPERIMENTS / "studies").glob("*.py"))
    for variant in read(path)
]


def told(number):
    """Kind of a column about samples: which score of which set, or how far chains came."""
    *place, last = re.sub(r"\.infinity$", "", number).split(".")
    if "displacement" in last:
        return "displacement"
    kind = re.fullmatch(
        r"(?:first_|best_)?(?:sample_|start_)?(fid|kid|is)(?:_rbf|_polynomial)?", last
    )
    if kind is None:
        return None
    if "starts" in place or last.startswith("start_"):
        return "starts", kind[1]
    return ("real" if "test_images" in place else "score"), kind[1]


@pytest.mark.parametrize(("name", "variant"), STUDIES)
def test_every_table_that_scores_samples_scores_their_starts_beside_them(name, variant):
    """And says how far chains came: those that never moved have the scores of their starts."""
    numbers = [number for number, _, _ in load(f"studies/{name}:{variant}").columns.values()]
    found = {told(number) for number in numbers}
    kinds = {one[1] for one in found if one and one[0] == "score"}
    assert {("starts", kind) for kind in kinds} <= found
    assert "displacement" in found or not kinds


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("configs/nothing.py", "no configuration file 'configs/nothing.py'"),
        ("configs/thermo_digits.py:unknown", "unknown variant 'unknown'; there are smoke"),
        (["thermo_digits", "--config.train.num_epoch=3"], ".*num_epoch is no field.*num_epochs"),
        (["thermo_digits", "--config.train.num_epochs=few"], ".*num_epochs.*few"),
        (["thermo_digits", "--config.train.batch_size=0"], "config.train.batch_size must be"),
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


@pytest.mark.parametrize("name", ["nowhere.py:loss", "own.py:absent"])
def test_a_part_that_is_not_there_is_found_before_the_first_run(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        "from ebmjax.recipes.study import Study\n"
        f"STUDY = Study({{'row': ['joint', '--config.loss.name={name}']}}, {{}})\n"
    )
    monkeypatch.setattr(sys, "argv", ["study.py", "--study=own.py", "--dry_run"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "row 'row': " in capsys.readouterr().err
    assert not Path("runs").exists()


NAMED = {
    "--config.data.path=no.npz --config.data.name=npz": r"data\.path='no\.npz' does not exist",
    "--config.data.path=~/no --config.data.name=mnist": r"data\.path='~/no' does not exist",
    "--config.evals.inception_weights=no.npz": r"inception_weights='no\.npz' does not",
    "--config.train.start_from=runs/no": r"config\.train\.start_from='runs/no' does not exist",
    "--config.model.factory=no.py:make": r"'no\.py:make' must be FILE\.py:FUNCTION",
    "--config.model.factory=own.py:mke": r"'own\.py:mke' must name a function of 'own\.py'",
    "--config.data.name=own.py:mke": r"'own\.py:mke' must name a function of 'own\.py'",
    "--config.data.name=mnistt": r"config\.data\.name='mnistt', .*tensorflow-datasets",
    "--config.data.path=own.py --config.data.name=folder": r"own\.py must be a folder of images",
    "--config.data.path=own.py --config.data.name=npz": r"\.path=.own\.py., split train",
    "--config.data.path=no_images --config.data.name=folder": r"no_images holds no images",
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
    Path("no_images").mkdir()
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
        ("--jobs=0", r"error: --jobs must be at least 1, got 0\."),
        ("--jobs=-2", r"error: --jobs must be at least 1, got -2\."),
        ("--folder=taken", r"error: --folder=taken cannot be used: .*File exists"),
        ("new", r"error: unexpected argument 'new': only --config\.FIELD=VALUE changes a field of"),
        ("--rows=ros*", r"error: --rows='ros\*' matches no row .*mean 'row'\? Its rows are"),
        ("--sedes=1", r"error: unexpected argument '--sedes=1': "),
        ("--seed=1", r"error: unexpected argument '--seed=1': "),
        ("--config.evals.every", r"error: unexpected argument '--config\.evals\.every': "),
        ("--config.train.epochs=3", r"error: .*config.train.epochs is no field"),
        ("--config.seed=3", r"error: .*the seed is each run's own, .*--seeds=N, or num_seeds"),
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
