"""experiments/study.py: what it runs, what it skips, and the table."""

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_runs import EXPERIMENTS, strict_json

from experiments.errors import ConfigError, WorkdirError
from experiments.study import (
    _tell_absent,
    as_markdown,
    default_folder,
    load,
    main,
    read,
    run_all,
    table,
    write,
)
from experiments.study_cells import Study, cells, from_both_ends
from experiments.study_jobs import run_each
from experiments.workdir import as_json, prepare, write_json

STUDY = Study(
    rows={
        "plain, a": "configs/jem_digits.py",
        "other/b": ["configs/jem_digits.py:mala", "--config.train.num_epochs=3"],
    },
    columns={
        "accuracy | %": ("classification.accuracy", 100.0, 1),
        "seconds": ("run_seconds", 1.0, 0),
        "absent": ("nowhere.to.be.found", 1.0, 2),
    },
    num_seeds=2,
    common=("--config.eval.num_ood=0",),
)


class Finished:
    """A process that has come to its end."""

    pid = 0

    def __init__(self, returncode, stderr):
        self.returncode, self.stderr = returncode, stderr

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        pass

    def communicate(self):
        return None, self.stderr


@pytest.fixture
def calls(monkeypatch):
    """Stands in for the runs: seed 1 of the second row diverges; the rest write their numbers."""
    made = []

    def fake(command, **options):
        made.append(command)
        argument = dict(part.split("=", 1) for part in command if part.startswith("--"))
        folder, seed = Path(argument["--workdir"]), int(argument["--config.seed"])
        folder.mkdir(parents=True)
        if seed == 1 and ":mala" in argument["--config"]:
            return Finished(1, "error: Training diverged: the last 20")
        # As a run does, whole or not at all: the table may be made while another job writes.
        write_json(folder / "summary.json", {"run_seconds": 10.0 + seed})
        write_json(folder / "evaluation.json", {"classification": {"accuracy": 0.5 + 0.25 * seed}})
        return Finished(0, "")

    monkeypatch.setattr(subprocess, "Popen", fake)
    return made


def run(all_cells):
    """What is told of every cell, one run at a time."""
    told = []
    run_each(all_cells, 1, lambda cell, status: told.append((cell, status)))
    assert [cell for cell, _ in told] == all_cells
    return [status for _, status in told]


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
        "--config=configs/jem_digits.py:mala",
        "--config.eval.num_ood=0",
        "--config.train.num_epochs=3",
        "--config.seed=1",
        f"--workdir={tmp_path}/other-b/seed1",
        "--mode=all",
    ]
    assert len({cell.folder for cell in made}) == 4
    assert [cell.config.seed for cell in made] == [0, 0, 1, 1]


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


def test_what_is_done_or_diverged_is_not_run_again(tmp_path, calls):
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


def test_the_table_has_mean_spread_and_divergences(tmp_path, calls):
    made = cells(STUDY, tmp_path, 2)
    run(made)
    found = table(STUDY, made)
    assert found["plain, a"]["accuracy | %"] == [50.0, 75.0]
    assert found["plain, a"]["seconds"] == [10.0, 11.0]
    assert (found["other/b"]["finished"], found["other/b"]["diverged"]) == (1, 1)
    lines = as_markdown(STUDY, found).splitlines()
    assert lines[0] == "|  | accuracy \\| % | seconds | absent | seeds | diverged |"
    spread = statistics.stdev([50.0, 75.0])
    assert lines[2] == f"| plain, a | 62.5 ± {spread:.1f} | 10 ± 1 | - | 2 | 0 |"
    assert lines[3] == "| other/b | 50.0 (1 of 2) | 10 (1 of 2) | - | 2 | 1 |"
    write(STUDY, made, tmp_path)
    assert (tmp_path / "table.md").read_text().splitlines() == lines
    assert strict_json((tmp_path / "table.json").read_text()) == found


def test_a_run_of_several_repeats_counts_each(tmp_path):
    study = Study(
        rows={"many": "configs/thermo_digits.py", "lost": "configs/thermo_digits.py:vanilla"},
        columns={"KID": ("kid.infinity", 10.0, 1), "seconds": ("cost.seconds", 1.0, 0)},
        num_seeds=2,
        common=("--config.train.num_repeats=3",),
    )
    numbers = {"kid": {"infinity": [1.0, None, 3.0]}, "cost": {"seconds": 7.0}}
    made = cells(study, tmp_path, 2)
    for cell in made:
        cell.folder.mkdir(parents=True)
        if cell.label == "many":
            evaluation = numbers | {"diverged_repeats": 1}
            (cell.folder / "evaluation.json").write_text(json.dumps(evaluation))
    (made[1].folder / "diverged.txt").write_text("Training diverged")
    found = table(study, made)
    assert found["many"]["KID"] == [10.0, None, 30.0, 10.0, None, 30.0]
    assert found["many"]["seconds"] == [7.0, 7.0]
    assert (found["many"]["finished"], found["many"]["diverged"]) == (4, 2)
    assert (found["lost"]["finished"], found["lost"]["diverged"]) == (0, 3)
    spread = statistics.stdev([10.0, 30.0, 10.0, 30.0])
    lines = as_markdown(study, found).splitlines()
    assert lines[2] == f"| many | 20.0 ± {spread:.1f} (4 of 6) | 7 ± 0 | 6 | 2 |"
    assert lines[3] == "| lost | - | - | 3 | 3 |"

    (made[2].folder / "diverged.txt").write_text("Training diverged")  # "many" again
    found = table(study, made)
    assert found["many"]["KID"] == [10.0, None, 30.0, None, None, None]
    assert found["many"]["seconds"] == [7.0, None]


def test_a_mean_over_fewer_seeds_says_over_how_many(tmp_path, capsys):
    """Of five seeds one is null, one lacks the number, one diverged, and one is not run yet."""
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
    assert lines[2] == "| row | 29.6 (1 of 4) | 8 ± 1 (3 of 4) | 4 | 1 |"
    _tell_absent(study, made)
    assert capsys.readouterr().out == ""  # one run has it


def test_figures_are_drawn_after_all_runs_and_again(tmp_path, calls):
    drawn = []
    study = replace(STUDY, draw=lambda folder: drawn.append((folder, len(calls))))
    made = cells(study, tmp_path, 2)
    assert run_all(study, made, tmp_path, 2) == 0
    assert run_all(study, made, tmp_path, 1) == 0
    assert drawn == [(tmp_path, 4), (tmp_path, 4)]
    assert (tmp_path / "table.md").exists()


def test_failures_are_counted(tmp_path, monkeypatch, capsys):
    failed = Finished(2, "error: no such data")
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: failed)
    assert run_all(STUDY, cells(STUDY, tmp_path, 1), tmp_path, 1) == 2
    assert "plain, a, seed 0: failed with exit code 2" in capsys.readouterr().out


def test_a_study_file_has_variants(tmp_path):
    path = tmp_path / "several.py"
    path.write_text(
        "from experiments.study import Study\n"
        "STUDIES = {'': Study({}, {}, num_seeds=1), 'quick': Study({}, {}, num_seeds=2)}\n"
    )
    assert (load(str(path)).num_seeds, load(f"{path}:quick").num_seeds) == (1, 2)
    with pytest.raises(SystemExit, match=r"no variant 'slow'. There .*several.py, .*py:quick\."):
        load(f"{path}:slow")
    with pytest.raises(SystemExit, match=r"no variant 'quick'. There are studies/lebm_digits.py\."):
        load("studies/lebm_digits.py:quick")
    assert default_folder("studies/several.py") == Path("runs/studies/several")
    assert default_folder("several.py:quick") == Path("runs/studies/several_quick")


def test_a_study_file_is_found_from_experiments():
    loaded = load("studies/jem_digits.py")
    assert loaded.num_seeds == 5
    assert "JEM, SGLD" in loaded.rows


def test_other_files_are_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no study file 'nothing.py'. .*studies/jem_digits\.py"):
        load("nothing.py")
    (tmp_path / "empty.py").write_text("STUDY = 3")
    with pytest.raises(SystemExit, match="must define STUDY"):
        load(str(tmp_path / "empty.py"))


STUDIES = [
    (path.name, variant)
    for path in sorted((EXPERIMENTS / "studies").glob("*.py"))
    for variant in read(path)
]


@pytest.mark.parametrize(("name", "variant"), STUDIES)
def test_the_rows_of_every_study_exist(name, variant, tmp_path):
    """Their configurations, their variants and the fields that they change."""
    study = load(f"studies/{name}:{variant}")
    made = cells(study, tmp_path, 1)
    assert {cell.label for cell in made} == study.rows.keys()
    assert all(cell.config.family and cell.config.seed == cell.seed for cell in made)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("configs/nothing.py", "no configuration file 'configs/nothing.py'"),
        ("configs/thermo_digits.py:unknown", "unknown"),
        (["configs/thermo_digits.py", "--config.train.num_epoch=3"], "unknown field.*num_epoch"),
        (["configs/thermo_digits.py", "--config.train.num_epochs=few"], "num_epochs.*few"),
    ],
)
def test_a_row_that_cannot_be_run_is_told_before_the_others_run(row, expected, tmp_path):
    rows = {"good": "configs/thermo_digits.py", "bad": row}
    with pytest.raises(SystemExit, match=f"error: .*{expected}"):
        cells(Study(rows, {}), tmp_path, 1)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--seeds=0", "error: --seeds must be at least 1, got 0."),
        ("--folder=taken", r"error: --folder=taken cannot be used: .*File exists"),
        ("--study=broken.py", r"error: broken.py cannot be run: ModuleNotFoundError: .*nowhere"),
        ("--folder=other", r"other cannot be used: its table.json is of another .* row 'theirs'"),
    ],
)
def test_arguments_that_cannot_be(argument, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("good.py").write_text(
        "from experiments.study import Study\nSTUDY = Study({'row': 'configs/toy_beta.py'}, {})\n"
    )
    Path("broken.py").write_text("import nowhere\n")
    Path("taken").touch()
    Path("other").mkdir()
    Path("other/table.json").write_text(json.dumps({"row": {}, "theirs": {}}))
    arguments = ["study.py", "--study=good.py", "--folder=new", argument]
    monkeypatch.setattr(sys, "argv", arguments)  # the last one counts
    with pytest.raises(SystemExit, match=expected):
        main()
    assert not Path("new").exists()
    assert json.loads(Path("other/table.json").read_text()).keys() == {"row", "theirs"}


def test_a_column_that_no_run_has_is_named(tmp_path, calls, capsys):
    assert run_all(STUDY, cells(STUDY, tmp_path, 1), tmp_path, 1) == 0
    said = capsys.readouterr().out
    assert "No finished run has a nowhere.to.be.found, for the column 'absent'." in said
    assert said.count("No finished run has") == 1


def test_a_diverged_run_stays_one_when_its_best_state_is_evaluated(tmp_path):
    cell = made_before(STUDY, tmp_path)
    (cell.folder / "diverged.txt").write_text("Training diverged")
    assert cell.status == "diverged"


def test_two_rows_of_one_folder_are_refused(tmp_path):
    rows = dict.fromkeys(("a/b c", "other", "a-b_c"), "configs/thermo_digits.py")
    with pytest.raises(ConfigError, match=r"rows 'a/b c' and 'a-b_c' .* the folder 'a-b_c'"):
        cells(Study(rows, {}), tmp_path, 1)


def made_before(study, folder):
    """The first cell of a study, its folder as a finished run leaves it."""
    (cell, *_) = cells(study, folder, 1)
    prepare(cell.folder, cell.config)
    write_json(cell.folder / "evaluation.json", {"eval": as_json(cell.config)["eval"]})
    return cell


def test_a_folder_of_the_same_configuration_is_of_the_study(tmp_path):
    cell = made_before(STUDY, tmp_path)
    cell.check()
    assert cell.status == "done"
    elsewhere = (*STUDY.common, "--config.data.data_dir=/elsewhere")
    cells(replace(STUDY, common=elsewhere), tmp_path, 1)[0].check()


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
    changed = as_json(cell.config)["eval"] | {"num_attacked": 7}
    write_json(cell.folder / "evaluation.json", {"eval": changed})
    with pytest.raises(WorkdirError, match=r"another config\.eval: num_attacked was 7 and is now"):
        cell.check()


def test_a_study_in_a_folder_of_another_ends_before_it_runs_anything(tmp_path, monkeypatch, capsys):
    made_before(STUDY, tmp_path)
    path = tmp_path / "changed.py"
    path.write_text(
        "from experiments.study import Study\n"
        "rows = {'plain, a': 'configs/jem_digits.py', 'new': 'configs/jem_digits.py:mala'}\n"
        "STUDY = Study(rows, {}, num_seeds=1)\n"
    )
    monkeypatch.setattr(sys, "argv", ["study.py", f"--study={path}", f"--folder={tmp_path}"])
    with pytest.raises(SystemExit, match=r"error: --workdir .*seed0 .*eval\.num_ood was 0"):
        main()
    assert {one.name for one in tmp_path.iterdir()} == {"plain,_a", "changed.py"}
