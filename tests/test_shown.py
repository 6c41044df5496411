"""Texts that messages share."""

import pytest

from ebmjax import data
from ebmjax._shown import near_path
from ebmjax._user_function import user_function
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder.run_folder import config_of
from ebmjax.recipes.report import of_run


def test_a_missing_path_has_the_nearest_name_beside_it(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "images.npz").touch()
    assert near_path(tmp_path / "image.npz").endswith("images.npz'?")
    assert near_path(tmp_path / "run" / "mine").endswith("runs'?")
    for path in (tmp_path / "else", tmp_path / "runs" / "a", tmp_path / "runs"):
        assert near_path(path) == ""


def test_messages_of_missing_paths_say_so(tmp_path):
    for name in ("images.npy", "points.npy", "own.py"):
        (tmp_path / name).touch()
    (tmp_path / "mine").mkdir()
    for kind, name in (("npz", "image.npy"), ("folder", "mime")):
        with pytest.raises(FileNotFoundError, match=r"Did you mean '.*(images.npy|mine)'\?"):
            data.load_images(kind, "train", path=tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"no such file. Did you mean"):
        data.load_points(tmp_path / "point.npy")
    with pytest.raises(ValueError, match=r"Did you mean '.*own.py'\?"):
        user_function(f"{tmp_path}/owm.py:f")
    for read in (config_of, of_run.read):
        with pytest.raises(WorkdirError, match=r"mime does not exist. Did you mean '.*mine'\?"):
            read(tmp_path / "mime")
