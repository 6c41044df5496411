"""The command ``ebmjax`` in a user's own folder, with the package alone and no checkout."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib

import pytest
from experiment_runs import REPOSITORY

from ebmjax.recipes import __main__ as command

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
MINE = """
import runpy
from pathlib import Path

from ebmjax.recipes.models.latent.fields import SMOKE, configure

def get_config(variant=""):
    shared = runpy.run_path(str(Path(__file__).with_name("shared.py")))
    return configure(variant, base=SMOKE | shared["CHANGES"], variants={})
"""
SHARED = "CHANGES = {'train.num_epochs': 1}\n"
TABLE = """
from ebmjax.recipes.study import Study

STUDY = Study({"mine": "mine.py"}, {"steps": ("steps", 1.0, 0)}, num_seeds=1)
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder of a user's own files; the package is a copy of what the wheel has, no more."""
    ignored, tmp_path = shutil.ignore_patterns("__pycache__"), tmp_path_factory.mktemp("own")
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for source, place in {"ebmjax": "ebmjax", **wheel["force-include"]}.items():
        shutil.copytree(REPOSITORY / source, tmp_path / "site" / place, ignore=ignored)
    folder = tmp_path / "here"
    folder.mkdir()
    for name, text in (("mine.py", MINE), ("shared.py", SHARED), ("table.py", TABLE)):
        (folder / name).write_text(text)
    return folder


def run(*arguments, cwd):
    """``ebmjax ARGUMENTS`` of the copy, to its end."""
    environment = os.environ | {"PYTHONPATH": str(cwd.parent / "site")}
    return subprocess.run(
        [sys.executable, "-m", "ebmjax.recipes", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_an_unknown_command_is_told_in_a_line(here):
    finished = run("train", cwd=here)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: unknown command 'train'. There are run, study, fiel")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["fields joint", "x"])
@pytest.mark.parametrize("gone", ["stdout", "stderr"])
def test_a_reader_that_has_gone_is_no_error(arguments, gone):
    """Ends without a traceback, as in ``ebmjax --help | head``."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ebmjax.recipes", *arguments.split()]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {gone: writing}
    done = subprocess.run(command, text=True, cwd=REPOSITORY, **streams)
    os.close(writing)
    other = done.stderr if gone == "stdout" else done.stdout
    assert "Traceback" not in (other or "")
    assert "BrokenPipe" not in (other or "")
    assert done.returncode in (0, 2, 141)


@pytest.mark.slow
def test_a_study_of_ones_own_is_run(here):
    finished = run("study", "--study=table.py", "--folder=out", cwd=here)
    assert finished.returncode == 0, finished.stderr
    table = json.loads((here / "out" / "table.json").read_text())
    assert table["mine"]["finished"] == 1
    assert table["mine"]["steps"][0] > 0


def test_a_missing_package_names_the_extra(monkeypatch, capsys):
    def missing(name):
        raise ModuleNotFoundError("No module named 'ml_collections'", name="ml_collections")

    monkeypatch.setattr(sys, "argv", ["ebmjax", "run"])
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert 'needs ml_collections: pip install "ebmjax[experiments]"' in capsys.readouterr().err


def test_the_commands_load_without_jax():
    """So they answer mistakes in the command line at once."""
    code = f"import sys, {', '.join(command.COMMANDS.values())}; print('jax' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "False\n"
