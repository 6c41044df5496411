"""Folders that another study, or another version of this one, has left."""

import sys
from dataclasses import replace

import pytest
from study_problem import STUDY, made_before

from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.folder.workdir import write_json
from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.command import main


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
    arguments = [f"--study={path}", f"--folder={tmp_path}", *common, *given]
    monkeypatch.setattr(sys, "argv", ["study.py", *arguments])
    with pytest.raises(SystemExit, match=refusal and f"error: .*{refusal}") as ended:
        main()
    assert refusal or ended.value.code == 0
