"""The pages that a user follows to the letter: own images and networks, parts and families."""

import json
import os
import re
import subprocess
import sys

import pytest
from experiment_runs import REPOSITORY, launch, summary_of
from pages import TEXTS, blocks, files

from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.parts import image_data

ADDING = [page for page in TEXTS if page.startswith("docs/adding/")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder: it has the files that the pages show."""
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    return tmp_path


def run_commands(page, folder, **changes):
    """Runs a page's commands in a folder with no more than the files that the pages show."""
    for name, text in files().items():
        (folder / name).write_text(text)
    (folder / "bin").mkdir()
    for name, start in (("python", ""), ("ebmjax", "-m ebmjax.recipes")):
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}
    commands = "\n".join(blocks(TEXTS[page], "bash"))
    assert "ebmjax run --config=" in commands
    for pattern, text in changes.items():
        commands = re.sub(pattern, text, commands)
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_of_ones_own_is_short():
    names = ("my_sampler.py", "my_loss.py", "my_optimizer.py", "my_evaluation.py")
    assert max(len(files()[name].splitlines()) for name in names) <= 32


@pytest.mark.slow
@pytest.mark.parametrize("page", ADDING)
def test_the_commands_of_a_page_run(page, tmp_path):
    run_commands(page, tmp_path)


@pytest.mark.slow
def test_the_walkthrough_trains_evaluates_samples_scores_and_loads(tmp_path):
    out = run_commands("docs/walkthrough.md", tmp_path, **{r"(configs/\w+\.py)": r"\1:smoke"})
    assert "train 64 of 1,400, 8x8x1, 10 classes" in out
    assert "AUROC of log p(x), near images" in out  # the evaluation's table
    assert "samples (16, 8, 8, 1)" in out
    accuracy = float(re.search(r"^accuracy ([\d.]+)$", out, re.MULTILINE)[1])
    assert 0 < accuracy < 1
    rows = (tmp_path / "scores.csv").read_text().splitlines()
    assert len(rows) == 1 + 397  # the test images of the digits
    for family, file in (("joint", "evaluation"), ("image", "evaluation"), ("latent", "summary")):
        json.loads((tmp_path / "runs" / family / f"{file}.json").read_text())
    assert (tmp_path / "samples.png").stat().st_size > 1000
    assert (tmp_path / "params.safetensors").stat().st_size > 1000


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
