"""ebmjax compare says in what runs differ, and pairs only what belongs together."""

import json
import sys

import numpy as np
import pytest

from ebmjax import metrics
from ebmjax.recipes.evaluators.result_tables import with_interval
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run import compare

RIGHT = np.random.default_rng(0).uniform(size=(2, 200)) < np.array([[0.95], [0.85]])


@pytest.fixture
def runs(tmp_path):
    """Two evaluated runs, made by hand, on the same 200 images."""
    for number, name in enumerate(("a", "b")):
        folder = tmp_path / name
        (folder / "checkpoints").mkdir(parents=True)
        config = {"family": "joint", "loss": {"beta": number}, "seed": 0}
        rows = "".join(json.dumps({"step": s, "loss": s + number}) + "\n" for s in range(5))
        errors = run_folder.write_per_image(
            folder, {"classification.accuracy": {"test": RIGHT[number]}}
        )
        accuracy = {"accuracy": float(RIGHT[number].mean())}
        report = {"classification": accuracy, "images_sha256": "0", "test_set_error": errors}
        (folder / "metrics.jsonl").write_text(rows)
        for file, content in (
            ("config", config),
            ("summary", {"loss": 4.0 + number, "wall_seconds": 7}),
            ("evaluation", report),
        ):
            (folder / f"{file}.json").write_text(json.dumps(content))
    return tmp_path


def say(monkeypatch, capsys, folder, *further):
    """Lines that the command prints on the runs of a folder, with one space between words."""
    arguments = ["ebmjax compare", str(folder / "b"), str(folder / "a"), *further]
    monkeypatch.setattr(sys, "argv", arguments)
    compare.main()
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def change(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_fields_numbers_and_paired_differences_stand_side_by_side(runs, monkeypatch, capsys):
    said = say(monkeypatch, capsys, runs)
    found = metrics.paired_difference(RIGHT[0], RIGHT[1])
    ends = with_interval(*found)
    assert found.difference > 0.05
    for line in ("loss.beta 1 0", "loss 5 4", f"classification.accuracy {ends}"):
        assert line in said
    assert not [line for line in said if line.startswith(("seed", "family"))]
    assert "how it ended Done: 4 steps in 7 s. Done: 4 steps in 7 s." in said


@pytest.mark.parametrize("digest", ["1", None])
def test_runs_on_other_images_are_not_paired(runs, monkeypatch, capsys, digest):
    change(runs / "b", "evaluation.json", images_sha256=digest)
    said = say(monkeypatch, capsys, runs)
    assert not [line for line in said if line.startswith("classification")]


def test_fields_of_a_stranger_do_not_control_the_terminal(runs, monkeypatch, capsys):
    change(runs / "b", "config.json", **{"\x1b[2J": "\x9b\ud800"})
    assert '?[2J "??" -' in say(monkeypatch, capsys, runs)


def test_two_runs_are_needed(runs, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ebmjax compare", str(runs / "a"), f"{runs}/b/../a"])
    with pytest.raises(SystemExit, match="takes the folders of two runs or more"):
        compare.main()
