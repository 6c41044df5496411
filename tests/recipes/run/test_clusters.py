"""The lines of docs/clusters.md run here, as two processes with the variables of each cluster."""

import os
import re
import signal
import subprocess
import sys

import pytest
from experiment_runs import REPOSITORY, RUN, rows_of, wait_until
from linear_family import LINEAR, hold
from pages import blocks
from test_processes import FIELDS, STEPS, address_and_devices

PAGE = (REPOSITORY / "docs" / "clusters.md").read_text()

EBMJAX = f"""#!{sys.executable}
import os, re, sys
fields = {[f"--config.{name}={value}" for name, value in FIELDS.items()]}
keep = [a for a in sys.argv[2:] if not re.match("--config.mesh|--config.data.path=/data", a)]
assert sys.argv[1] == "run" and "--config=configs/jem_cifar10.py" in keep
keep[keep.index("--config=configs/jem_cifar10.py")] = "--config={LINEAR}:long"
held = "--config.data.path=" + os.environ["HELD"]
os.execv(sys.executable, [sys.executable, "{RUN}", *keep, held, *fields])
"""
"""``ebmjax`` with a small configuration, without the number of shards that many devices need."""

SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for i in 0 1; do
  SLURM_PROCID=$i SLURM_LOCALID=$i "$@" <&0 &
  echo $! > task$i
done
code=0
for i in 0 1; do wait $(cat task$i); ended=$?; [ $ended -gt $code ] && code=$ended; done
exit $code
"""

SLURM = {"SLURM_JOB_ID": "17", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}


@pytest.fixture
def start(tmp_path):
    """Starts the page's script of Slurm on an empty disk, with programs of a cluster."""
    address, devices = address_and_devices()
    scontrol = '#!/bin/sh\necho "$@" > asked\n'
    for name, text in {"ebmjax": EBMJAX, "srun": SRUN, "scontrol": scontrol}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    port = address.rpartition(":")[2]
    variables = os.environ | devices | SLURM | {"JAX_COORDINATOR_PORT": port}
    variables |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HELD": str(tmp_path)}
    section = re.split(r"^## ", PAGE.partition("\n## Slurm")[2], flags=re.M)[0]
    (script,) = blocks(section, "sh")
    script = script.replace("1234", port).replace("/runs/big", "../big")
    disk = tmp_path / "disk"
    disk.mkdir()
    return lambda: subprocess.Popen(["bash", "-c", script], cwd=disk, env=variables)


@pytest.mark.slow
def test_slurm_queues_a_run_again_that_it_has_stopped(start, tmp_path):
    disk = tmp_path / "disk"
    hold(tmp_path, 42)
    job = start()
    wait_until((disk / "runs" / "big" / "plots" / "weight_000042.txt").exists)
    os.kill(int((disk / "task1").read_text()), signal.SIGTERM)
    (tmp_path / "hold").unlink()
    assert job.wait(200) == 143
    assert (disk / "asked").read_text() == "requeue 17\n"
    (disk / "asked").unlink()
    assert start().wait(200) == 0
    assert [row["step"] for row in rows_of(disk / "runs" / "big")] == list(range(STEPS + 1))
    assert not (disk / "asked").exists()
