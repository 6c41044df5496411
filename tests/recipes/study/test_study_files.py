"""Study files and arguments: what is found, and what is refused before a run."""

import json
import re
import sys
from pathlib import Path

import pytest
from experiment_runs import EXPERIMENTS

from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import _check_folders, cells
from ebmjax.recipes.study.command import default_folder, load, main, read


def test_a_study_file_has_variants(tmp_path):
    path = tmp_path / "several.py"
    path.write_text(
        "from ebmjax.recipes.study import Study\n"
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
    with pytest.raises(SystemExit, match=r"no study file 'nothing.py' .*studies/jem_digits\.py"):
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
def test_the_rows_of_a_study_have_folders_of_their_own(name, variant):
    _check_folders(load(f"studies/{name}:{variant}"))


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


def test_what_columns_tell_of_samples():
    assert told("generation.buffer.fid") == ("score", "fid")
    assert told("generation.buffer_selected.starts.is") == ("starts", "is")
    assert told("over_training.best_sample_fid") == ("score", "fid")
    assert told("over_training.start_fid") == ("starts", "fid")
    assert told("generation.fresh.at_sizes.kid_rbf.infinity") == ("score", "kid")
    assert told("generation.test_images.at_sizes.fid.infinity") == ("real", "fid")
    assert told("chain_displacement") == told("fresh.rms_displacement") == "displacement"
    assert told("classification.accuracy") is told("test_reconstruction_error") is None


@pytest.mark.parametrize(
    ("study", "labels"),
    [
        ("jem_digits.py:ablation", {"JEM++", "JEM++, p(x) unaugmented", "SADA-JEM"}),
        ("jem_digits.py:norm", {"group", "batch", "SADA-JEM, as published"}),
        (
            "jem_digits.py:norm_parts",
            {f"SADA-JEM, without {part}" for part in ("proximal step", "box of the data", "SAM")}
            | {"SADA-JEM, without noiseless images", "SADA-JEM, without crops for the labels"},
        ),
        ("svgdjem.py", {"SGLD", "SVGD, literal", "SVGD, corrected", "SVGD, beta 0.1"}),
        ("svgdjem.py:cpu", {"SGLD", "SVGD, literal", "SVGD, corrected", "SVGD, beta 0.1"}),
    ],
)
def test_rows_whose_starts_score_as_real_images_do_have_one_from_noise(study, labels, tmp_path):
    """That differs in nothing but the start."""
    made = {cell.label: cell.config for cell in cells(load(f"studies/{study}"), tmp_path, 1)}
    uniform = {label for label in made if label.endswith(", uniform start")}
    assert uniform == {f"{label}, uniform start" for label in labels}
    for label in labels:
        informed, other = made[label], made[f"{label}, uniform start"]
        assert (informed.sampler.buffer.law, other.sampler.buffer.law) == ("informative", "uniform")
        other.sampler.buffer.law = "informative"
        assert other.to_dict() == informed.to_dict()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("configs/nothing.py", "no configuration file 'configs/nothing.py'"),
        ("configs/thermo_digits.py:unknown", "unknown"),
        (
            ["configs/thermo_digits.py", "--config.train.num_epoch=3"],
            "num_epoch is no field",
        ),
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
        ("new", r"error: unexpected argument 'new'; --config\.FIELD=VALUE changes a field of"),
        ("--rows=ros*", r"error: --rows='ros\*' matches no row of the study. Its rows are 'row'\."),
        ("--sedes=1", r"error: unexpected argument '--sedes=1'; "),
        ("--config.eval.every", r"error: unexpected argument '--config\.eval\.every'; "),
        ("--config.train.epochs=3", r"error: .*config.train.epochs is no field"),
        ("--config.seed=3", r"error: --config\.seed is each run's own, .*--seeds=N says how many"),
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
    Path("broken.py").write_text("import nowhere\n")
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
