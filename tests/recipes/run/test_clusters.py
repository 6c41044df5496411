"""The script of docs/clusters.md asks for another turn exactly where a run was stopped."""

import os
import subprocess

import pytest
from experiment_runs import REPOSITORY
from pages import blocks

PAGE = (REPOSITORY / "docs" / "clusters.md").read_text()
PROGRAMS = {"srun": 'exec "$@"', "ebmjax": "exit $CODE", "scontrol": 'echo "$@" > asked'}


@pytest.mark.parametrize(("code", "is_asked"), [(143, True), (0, False), (1, False), (2, False)])
def test_slurm_queues_a_run_again_that_it_has_stopped(code, is_asked, tmp_path):
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (script,) = blocks(PAGE.partition("\n## Slurm")[2], "sh")
    paths = f"{tmp_path}:{os.environ['PATH']}"
    variables = os.environ | {"PATH": paths, "CODE": str(code), "SLURM_JOB_ID": "17"}
    job = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=variables, check=False)
    assert job.returncode == code
    asked = tmp_path / "asked"
    assert (asked.read_text() if asked.exists() else "") == "requeue 17\n" * is_asked
