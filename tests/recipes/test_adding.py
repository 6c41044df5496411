"""The pages on adding parts, families and data sources, followed to the letter."""

import json
import os
import subprocess
import sys

import pytest
from experiment_runs import REPOSITORY, launch, summary_of
from pages import TEXTS, blocks, files

from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.parts import image_data

ADDING = [page for page in TEXTS if page.startswith("docs/adding/")]
EBMJAX = f'#!/bin/sh\nexec {sys.executable} -m ebmjax.recipes "$@"\n'
READ = """import sys
from ebmjax.recipes.config import command_line
arguments = [one for one in sys.argv[3:] if not one.startswith("--mode=")]
command_line.read(sys.argv[2].removeprefix("--config="), arguments)
"""
READER = f"#!/bin/sh\nexec {sys.executable} -c '{READ}' \"$@\"\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder: it has the files that the pages show."""
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    return tmp_path


def run_commands(page, folder, **programs):
    """Runs a page's commands in a folder with no more than the files that the pages show."""
    for name, text in files().items():
        (folder / name).write_text(text)
    (folder / "bin").mkdir()
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    environment = os.environ | {
        "PATH": os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(REPOSITORY),
    }
    commands = "\n".join(blocks(TEXTS[page], "bash"))
    assert "ebmjax run --config=" in commands
    subprocess.run(["bash", "-euc", commands], cwd=folder, env=environment, check=True, timeout=500)


def test_each_has_a_page():
    assert {page.rpartition("/")[2] for page in ADDING} == {
        "sampler.md", "loss.md", "optimizer.md", "evaluator.md", "family.md", "data_source.md",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in ADDING if "family" not in page])
def test_the_configurations_of_a_page_are_valid(page, tmp_path):
    run_commands(page, tmp_path, ebmjax=READER)


def test_a_file_of_ones_own_is_short():
    names = ("my_sampler.py", "my_loss.py", "my_optimizer.py", "my_evaluation.py")
    assert max(len(files()[name].splitlines()) for name in names) <= 32


@pytest.mark.slow
@pytest.mark.parametrize("page", ADDING)
def test_the_commands_of_a_page_run(page, tmp_path):
    run_commands(page, tmp_path, ebmjax=EBMJAX)


def test_a_family_of_ones_own_is_trained_and_evaluated(here):
    config = command_line.read("bell.py:smoke", [])
    assert launch(config, "bell.py:smoke", "out", "all") is None
    assert summary_of(here / "out")["steps"] == 40
    # It starts 3 away and takes 40 steps of Adam at 0.1, with signs that agree at first.
    assert json.loads((here / "out" / "evaluation.json").read_text())["error"] < 1.0


def read_images(name):
    config = command_line.read("configs/jem_digits.py:smoke", [f"--config.data.name={name}"])
    return image_data.load(config)[0]


def test_a_data_source_of_ones_own_is_read(here):
    found = read_images("my_images.py:images")
    assert found.train.images.shape == (64, 8, 8, 1)
    assert found.monitored.images.shape == (32, 8, 8, 1)
    assert (found.train.images[:32] != found.monitored.images).any()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my_images.py:pictures", r"function of 'my_images\.py', which has \['images'\]"),
        ("nothing.py:images", "No such file"),
        ("nothing:images", "No module named 'nothing'"),
        ("wrong.py:flat", r"must have shape \(N, height, width, channels\).*got \(5, 64\)"),
    ],
)
def test_a_data_source_that_cannot_be_is_refused(name, expected, here):
    (here / "wrong.py").write_text(
        "import numpy as np\n"
        "def flat(split):\n"
        "    return np.zeros((5, 64), np.uint8), np.zeros(5, int)\n"
    )
    with pytest.raises(ValueError, match=rf"config\.data\.name.*{expected}"):
        read_images(name)
