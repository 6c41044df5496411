"""The page for a user's own images and networks runs as it stands, with ``:smoke``."""

import json
import os
import re
import subprocess
import sys

import pytest
from experiment_runs import REPOSITORY
from pages import TEXTS, blocks, files

PAGE = TEXTS["docs/walkthrough.md"]


@pytest.fixture
def programs(tmp_path):
    """A folder with the page's files; returns the environment of a user."""
    for name in ("images.py", "my_networks.py", "use.py"):
        (tmp_path / name).write_text(files()[name])
    (tmp_path / "bin").mkdir()
    for name, start in (("python", ""), ("ebmjax", "-m ebmjax.recipes")):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY)}


@pytest.mark.slow
def test_the_commands_train_evaluate_sample_score_and_load(programs, tmp_path):
    (shell,) = blocks(PAGE, "bash")
    short, num_runs = re.subn(r"(configs/\w+\.py)", r"\1:smoke", shell)
    assert num_runs == 4
    finished = subprocess.run(
        ["bash", "-euc", short], cwd=tmp_path, env=programs, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    out = finished.stdout
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
