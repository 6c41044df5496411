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


class Machine:
    """Programs of a cluster, an empty disk, and variables.

    Attributes:
      port: a free one.
    """

    def __init__(self, folder):
        self.folder, (address, devices) = folder, address_and_devices()
        self.port = address.rpartition(":")[2]
        scontrol = '#!/bin/sh\necho "$@" > asked\n'
        for name, text in {"ebmjax": EBMJAX, "srun": SRUN, "scontrol": scontrol}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.variables = os.environ | devices | SLURM
        self.variables |= {"PATH": f"{folder}:{os.environ['PATH']}", "HELD": str(folder)}
        self.variables["JAX_COORDINATOR_PORT"] = self.port

    def start(self, script, number=0, **variables):
        disk = self.folder / f"disk{number}"
        disk.mkdir(exist_ok=True)
        return subprocess.Popen(
            ["bash", "-c", script.replace("1234", self.port).replace("/runs/big", "../big")],
            cwd=disk,
            env=self.variables | variables,
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def block(language, name):
    """The one block of a section."""
    (text,) = blocks(re.split(r"^## ", PAGE.partition(f"\n## {name}")[2], flags=re.M)[0], language)
    return text


@pytest.mark.slow
def test_slurm_queues_a_run_again_that_it_has_stopped(machine):
    disk, script = machine.folder / "disk0", block("sh", "Slurm")
    hold(machine.folder, 42)
    job = machine.start(script)
    wait_until((disk / "runs" / "big" / "plots" / "weight_000042.txt").exists)
    os.kill(int((disk / "task1").read_text()), signal.SIGTERM)
    (machine.folder / "hold").unlink()
    assert job.wait(200) == 143
    assert (disk / "asked").read_text() == "requeue 17\n"
    (disk / "asked").unlink()
    assert machine.start(script).wait(200) == 0
    assert [row["step"] for row in rows_of(disk / "runs" / "big")] == list(range(STEPS + 1))
    assert not (disk / "asked").exists()
