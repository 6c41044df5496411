"""Mistakes of ``ebmjax sample``, ``score`` and ``export`` are one line, and nothing is written."""

import shutil

import numpy as np
import pytest
from use_checks import command

from ebmjax import recipes
from ebmjax.recipes.core.fields import ConfigError


@pytest.mark.parametrize(
    ("name", "out", "further", "expected"),
    [
        ("sample", "s.txt", [], "--out must end in .png or .npz, got"),
        ("sample", "no/s.png", [], "--out must lie in a folder that exists"),
        ("score", "s.png", ["--data=x"], "--out must end in .csv or .npz, got"),
        ("score", "s.csv", ["--data=nowhere"], "--data does not exist: nowhere."),
        ("score", "s.csv", ["--data=own.npz"], "must hold images of shape (8, 8, 1), as the run"),
        ("export", "p.pt", [], "--out must end in .safetensors or .npz, got"),
    ],
)
def test_mistakes_are_named(name, out, further, expected, smoke, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", images=np.zeros((3, 8, 8, 3), np.uint8))
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, name, smoke, out, *further)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"own.npz"}


def test_a_folder_without_a_finished_run_is_named(smoke, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit):
        command(monkeypatch, "sample", tmp_path, tmp_path / "s.png")
    assert f"{tmp_path} is not the folder of a run" in capsys.readouterr().err
    unfinished = shutil.copytree(smoke, tmp_path / "run")
    shutil.rmtree(unfinished / "checkpoints")
    with pytest.raises(SystemExit):
        command(monkeypatch, "sample", unfinished, tmp_path / "s.png")
    assert "holds no checkpoint" in capsys.readouterr().err


def test_other_fields_may_not_differ(smoke):
    with pytest.raises(ConfigError, match=r"sampler_num_steps may not differ.*eval_checkpoint"):
        recipes.load(smoke, sampler_num_steps=3)
