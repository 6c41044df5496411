"""Survivors of a dead process go on: kills of stand-ins that are quick, and of a run."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from experiment_runs import REPOSITORY, RUN, launch, rows_of, run_script, wait_until
from linear_family import LINEAR, NAME, hold, linear
from test_processes import FIELDS, STEPS, address_and_devices, assert_close, ended, start_process

from ebmjax._records import list_steps
from ebmjax.recipes.run import elastic

# A process of a run without JAX: it ends with 1 when another of its group has; process 0 counts.
CHILD = """
import os, pathlib, sys, time, fcntl
folder = pathlib.Path(sys.argv[1])
flags = dict(one[2:].split("=", 1) for one in sys.argv[2:])
me, total = int(flags["process_id"]), int(flags["num_processes"])
group = folder / ("group" + flags["coordinator_address"].rpartition(":")[2])
group.mkdir(exist_ok=True)
(group / f"new{me}").write_text(str(os.getpid()))
(group / f"new{me}").rename(group / f"{me}")
def others():
    return [int(p.read_text()) for p in group.iterdir() if p.name.isdecimal()]
while len(others()) < total:
    time.sleep(0.005)
steps = folder / "run" / "checkpoints"
steps.mkdir(parents=True, exist_ok=True)
lock = open(folder / "lock", "w")
if me == 0:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(folder / "sizes", "a") as file:
        file.write(f"{total}\\n")
def newest():
    return max(map(int, (p.name for p in steps.iterdir())), default=0)
while newest() < END:
    for other in others():
        state = pathlib.Path(f"/proc/{other}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            (group / "dead").touch()
    if (group / "dead").exists():
        sys.exit(1)
    if me == 0:
        (steps / str(newest() + 1)).mkdir()
    time.sleep(0.01)
"""

SUPERVISOR = """
import sys
from pathlib import Path
from ebmjax.recipes.run import elastic
folder, me = Path(sys.argv[1]), int(sys.argv[2])
command = [sys.executable, "-S", str(folder / "child.py"), str(folder)]
one = elastic.Supervisor(command, folder / "run", me, 4, 8, "localhost", beat=0.02)
sys.exit(one.supervise())
"""


def start_supervisor(folder, me):
    return subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(folder), str(me)])


def children(folder):
    """Process numbers of the newest group, by their place in it."""
    firsts = sorted(folder.glob("group*/0"), key=lambda path: path.stat().st_mtime_ns)
    found = firsts[-1:] and [p for p in firsts[-1].parent.iterdir() if p.name.isdecimal()]
    return [int(path.read_text()) for path in sorted(found or [])]


def kill(number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def kill_machine(supervisor):
    """Kills a supervisor and its process, the latter first: its supervisor must not see it end."""
    supervisor.send_signal(signal.SIGSTOP)
    below = f"/proc/{supervisor.pid}/task/{supervisor.pid}/children"
    with open(below) as file:
        for number in map(int, file.read().split()):
            kill(number)
    supervisor.kill()
    supervisor.wait()


def stand_in(folder, end):
    (folder / "child.py").write_text(CHILD.replace("END", str(end)))
    return [start_supervisor(folder, me) for me in range(4)]


def sizes(folder):
    return [int(line) for line in (folder / "sizes").read_text().split()]


def newest(folder):
    return max(list_steps(folder / "run" / "checkpoints"), default=0)


def run_with_kills(folder, num_kills, seed=0):
    """Kills processes and machines of a stand-in, each a while after it has gone on.

    A machine that is dead comes back once two are, so that there is always one to kill. One whose
    process waits for a round may be among them; each death of a process makes a new group.
    """
    rng, num_groups = np.random.default_rng(seed), 1
    machines = dict(enumerate(stand_in(folder, 10**6)))
    for _ in range(num_kills):
        before = newest(folder)
        wait_until(lambda before=before: newest(folder) > before + 2)
        time.sleep(rng.uniform(0, 0.1))
        if rng.uniform() < 0.5:
            kill(int(rng.choice(children(folder))))
            num_groups += 1
            continue
        kill_machine(machines.pop(int(rng.choice(list(machines)))))
        if len(machines) == 2:
            machines |= {me: start_supervisor(folder, me) for me in {*range(4)} - {*machines}}
    wait_until(lambda: len(sizes(folder)) >= num_groups)
    (folder / "run" / "checkpoints" / str(10**6)).mkdir()
    assert [one.wait(60) for one in machines.values()] == [0] * len(machines)
    assert sizes(folder)[0] == 4
    assert {*sizes(folder)} <= {1, 2, 4}, "they divide 8 shards"


@pytest.mark.parametrize(("code", "num_starts"), [(0, 1), (2, 1), (1, 6)])
def test_a_run_ends_when_it_is_finished_or_cannot_go_on(code, num_starts, tmp_path, capsys):
    command = [sys.executable, "-S", "-c", f"import sys; sys.exit({code})"]
    one = elastic.Supervisor(command, tmp_path / "run", 0, 1, 8, "localhost", beat=0.01)
    assert one.supervise() == code
    assert capsys.readouterr().err.count("process 0 of 1") == num_starts
    again = elastic.Supervisor(command, tmp_path / "run", 1, 2, 8, "localhost", beat=0.01)
    for _ in range(3):  # the same command later: what 0 said then does not end it
        again._look()
        again._wait()
    assert again.ended == -1


@pytest.mark.slow
def test_survivors_go_on(tmp_path):
    run_with_kills(tmp_path, 6)


@pytest.mark.slow
def test_100_kills_end_no_run(tmp_path):
    run_with_kills(tmp_path, 100, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "signum"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGTERM)]
)
def test_the_survivor_of_two_takes_the_same_steps(victim, signum, tmp_path):
    """Up to rounding: see ``test_processes.assert_close``."""
    one, two = tmp_path / "one", tmp_path / "two"
    held = tmp_path / "held"
    held.mkdir()
    assert launch(linear("long", **FIELDS), NAME, str(one)) is None
    address, devices = address_and_devices()
    command = [sys.executable, str(RUN), f"--config={LINEAR}:long", f"--workdir={two}", "--elastic"]
    command += [f"--config.{name}={value}" for name, value in FIELDS.items()]
    command += [f"--config.data.path={held}", f"--coordinator_address={address}"]
    hold(held, 14)
    pair = [
        start_process([*command, "--num_processes=2", f"--process_id={number}"], devices)
        for number in range(2)
    ]
    wait_until((two / "plots" / "weight_000014.txt").exists)
    if signum == signal.SIGKILL:
        kill_machine(pair[victim])
    else:
        pair[victim].send_signal(signum)
    (held / "hold").unlink()
    codes, texts = ended(pair)
    output, errors = texts[1 - victim]
    assert codes[1 - victim] == 0, errors
    assert codes[victim] in (-signal.SIGKILL, 128 + signal.SIGTERM)
    assert re.search(r"round 2: process 0 of 1, from step \d", errors), errors
    assert "in 2 processes" not in output.partition("round 2")[2]
    assert_close(two, one)
    assert [row["step"] for row in rows_of(two)] == list(range(STEPS + 1))


@pytest.mark.parametrize(
    "flags", [(), ("--coordinator_address=h:1", "--num_processes=2", "--process_id=0")]
)
def test_elastic_needs_a_folder_and_names(flags):
    done = run_script(f"--config={LINEAR}", "--elastic", *flags, cwd=REPOSITORY)
    assert done.returncode == 2
    assert "--elastic needs --workdir, a folder that all machines see" in done.stderr
