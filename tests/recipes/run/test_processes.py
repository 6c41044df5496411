"""Several processes share a run: 2 processes of 4 devices each, against 1 process of 8."""

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from experiment_runs import REPOSITORY, RUN, contents, launch, rows_of, summary_of, wait_until
from linear_family import LINEAR, NAME, hold, linear

from ebmjax.recipes.config.errors import FAILED
from ebmjax.recipes.run import machine
from ebmjax.recipes.run.command import read_arguments
from ebmjax.recipes.run.machine import LEVEL, QUICK
from ebmjax.training._processes import _pickle_result

FIELDS = {"mesh.num_shards": 8, "train.batch_size": 16, "train.keep_best": "test_accuracy"}
STEPS = 60
EPS = np.finfo(np.float32).eps


ASKED = ("host:1234", 2, 1)


def request(*named, is_distributed=False):
    given = dict(zip(machine.NAMES, named, strict=True))
    return machine.read_request(SimpleNamespace(distributed=is_distributed, **given))


def test_flags_name_the_processes(monkeypatch):
    assert request(None, None, None) is None
    assert request(None, None, None, is_distributed=True) == {}
    named = dict(zip(machine.NAMES, ASKED, strict=True))
    assert request(*ASKED) == named | {"cluster_detection_method": "deactivate"}
    for given in ((None, 2, None), ("host:1", 2, None), ("host", 2, 1), ("host:1", 2, 2)):
        with pytest.raises(SystemExit, match=r"several processes need .*--num_processes="):
            request(*given)
    for name, value in named.items():
        monkeypatch.setenv(f"JAX_{name.upper()}", str(value))
    options = read_arguments(["--config=joint", "--process_id=0"])  # a flag comes first
    assert [getattr(options, name) for name in machine.NAMES] == ["host:1234", 2, 0]


def test_a_cpu_is_a_device_for_each_processor_unless_something_else_is_said(monkeypatch):
    for name in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    name, found = "JAX_NUM_CPU_DEVICES", str(len(os.sched_getaffinity(0)))
    assert machine.variables()[name] == found
    assert name not in machine.variables(is_shared=True)
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    assert name not in machine.variables()
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "4")
    assert name not in machine.variables()


def test_a_level_of_optimisation_that_is_given_counts(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    for given, is_quick, expected in (
        ("--xla_a=1", True, " ".join(["--xla_a=1", *QUICK])),
        ("--xla_a=1", False, f"--xla_a=1 {LEVEL}"),
        ("--xla_backend_optimization_level=3", True, None),
    ):
        monkeypatch.setenv("XLA_FLAGS", given)
        assert machine.variables(is_quick).get("XLA_FLAGS") == expected
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert machine.variables()["XLA_FLAGS"] == "--xla_a=1"


def test_a_process_that_fails_leaves_at_once(monkeypatch, capsys):
    """The others must not wait for it; one that ends well waits for them as JAX does."""
    left = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda **_: None)
    monkeypatch.setattr(machine, "_leave", left.append)
    with pytest.raises(SystemExit), machine.join_processes({}):
        sys.exit(0)
    assert left == []
    with machine.join_processes({}):
        sys.exit(3)
    with machine.join_processes({}):
        raise ZeroDivisionError
    assert left == [3, FAILED]
    assert "ZeroDivisionError" in capsys.readouterr().err


class OddError(Exception):
    """An error that pickle can write and not read."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def test_an_error_that_cannot_be_sent_keeps_its_text():
    result, error = pickle.loads(_pickle_result(None, OddError("this", "that")))
    assert result is None
    assert str(error) == "this and that"


def address_and_devices():
    """A free address, and the variable that gives a process 4 devices."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    flags = os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=4")
    return address, {"XLA_FLAGS": flags}


def start_process(command, variables):
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


MESSAGES = """
import sys
import jax, numpy as np
from jax.sharding import PartitionSpec
from ebmjax.training import _processes as processes, make_mesh

jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
mesh = make_mesh(8)
tree = {"key": jax.random.split(jax.random.key(3), 8), "none": np.zeros((8, 0))}
tree["bool"] = np.eye(8) > 0
placed = processes.put(tree, mesh, PartitionSpec("data"))
assert not placed["key"].is_fully_addressable
back = processes.whole(placed, mesh)
back["key"], tree["key"] = map(jax.random.key_data, (back["key"], tree["key"]))
assert all(np.array_equal(back[name], tree[name]) for name in tree)

large = np.arange(processes.PIECE + 5, dtype=np.uint8)
assert np.array_equal(processes.from_first(lambda: large * processes.is_first()), large)
assert processes.from_first(lambda: processes.from_first(lambda: 3)) == 3
assert processes.on_first(lambda: 3) == (3 if processes.is_first() else None)
assert int(processes.largest(jax.process_index(), mesh)) == 1
try:
    processes.on_first(lambda: 1 / 0)
except ZeroDivisionError:
    print("passed")
"""


@pytest.mark.slow
def test_arrays_and_messages_come_through_whole():
    address, devices = address_and_devices()
    command = [sys.executable, "-c", MESSAGES, address]
    pair = [start_process([*command, str(number)], devices) for number in range(2)]
    codes, texts = ended(pair)
    assert codes == [0, 0], texts
    assert all(output.endswith("passed\n") for output, _ in texts)


def start_pair(*arguments, is_slurm=False):
    """The two processes of one run, named by flags or by the variables that Slurm sets."""
    address, devices = address_and_devices()
    command = [sys.executable, str(RUN), f"--config={LINEAR}:long", *map(str, arguments)]
    command += [f"--config.{name}={value}" for name, value in FIELDS.items()]

    def start(number):
        named = {"coordinator_address": address, "num_processes": 2}
        flags = [f"--{name}={value}" for name, value in {**named, "process_id": number}.items()]
        slurm = {"JOB_ID": 1, "STEP_NODELIST": "localhost", "NTASKS": 2}
        slurm |= {"PROCID": number, "LOCALID": number}
        variables = {f"SLURM_{name}": str(value) for name, value in slurm.items()}
        variables["JAX_COORDINATOR_PORT"] = address.rpartition(":")[2]
        if is_slurm:
            return start_process([*command, "--distributed"], devices | variables)
        return start_process([*command, *flags], devices)

    return [start(number) for number in range(2)]


def ended(pair):
    """The exit codes of both processes, and what they wrote: (output, errors) of each."""
    texts = [process.communicate(timeout=200) for process in pair]
    return [process.returncode for process in pair], texts


def signalled(workdir, held, step, number, signum):
    """``ended`` of a pair whose process ``number`` gets a signal while both wait after ``step``."""
    hold(held, step)
    pair = start_pair(f"--workdir={workdir}", f"--config.data.path={held}")
    try:
        # Before the measurement of the step before, the earlier sitting may have left the file.
        later = workdir / "plots" / f"weight_{step:06d}.txt"
        wait_until(lambda: later.exists() or any(one.poll() is not None for one in pair))
        pair[number].send_signal(signum)
    finally:
        (held / "hold").unlink()
    return ended(pair)


def weights(workdir):
    found = {path.name: float(path.read_text()) for path in (workdir / "plots").glob("weight_*")}
    assert len(found) == STEPS // 2 + 1
    return found


def assert_close(workdir, other):
    """The same trajectory up to the rounding of the all-reduce.

    A step moves the weight by 0.04 of a gradient of at most 8. A sum over 8 shards is off by at
    most 8 roundings: 2.6 of the weight's a step. The weight and the residual are rounded, too,
    which makes less than 5. The loss is a parabola, so later steps do not enlarge what came before.
    """
    ours, theirs = weights(workdir), weights(other)
    for name, weight in theirs.items():
        assert abs(ours[name] - weight) <= 5 * STEPS * EPS, name


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of the same run by one process and by two."""
    one, two = (tmp_path_factory.mktemp("runs") / name for name in ("one", "two"))
    assert launch(linear("long", **FIELDS), NAME, str(one), "all") is None
    codes, texts = ended(start_pair(f"--workdir={two}", "--mode=all"))
    assert codes == [0, 0], texts
    assert "8 x cpu in 2 processes" in texts[0][0]
    assert texts[1][0].replace("[Gloo]", "").count("step") == 0  # process 0 speaks for both
    return one, two


def test_two_processes_take_the_steps_of_one_and_write_one_folder(runs):
    one, two = runs
    assert_close(two, one)
    # Orbax names some files by chance, TensorBoard's have the time.
    kept = [
        {name for name in contents(run) if "/d/" not in name and "tfevents" not in name}
        for run in runs
    ]
    assert kept[0] == kept[1]
    assert len(list(two.glob("*tfevents*"))) == 1


@pytest.mark.slow
def test_whichever_process_ends_the_run_goes_on_to_the_same_bits(runs, tmp_path):
    one, two = runs
    broken, held = tmp_path / "broken", tmp_path / "held"
    held.mkdir()
    for number, step in ((1, 14), (0, 28)):
        codes, texts = signalled(broken, held, step, number, signal.SIGKILL)
        other = 1 - number
        assert codes[number] == -signal.SIGKILL
        assert codes[other] in (FAILED, -signal.SIGABRT), texts
        assert not (broken / "summary.json").exists()

    codes, texts = signalled(broken, held, 42, 1, signal.SIGTERM)
    assert codes == [128 + signal.SIGTERM] * 2, texts
    stopped = rows_of(broken)[-1]["step"]
    assert 42 <= stopped <= 48  # three blocks of two steps at most
    assert f"Interrupted at step {stopped} of {STEPS}; saved." in texts[0][0]
    elsewhere = shutil.copytree(broken, tmp_path / "elsewhere")

    codes, texts = ended(start_pair(f"--workdir={broken}", is_slurm=True))
    assert codes == [0, 0], texts
    assert rows_of(broken) == rows_of(two)
    assert weights(broken) == weights(two)
    assert summary_of(broken)["params_sha256"] == summary_of(two)["params_sha256"]

    assert launch(linear("long", **FIELDS), NAME, str(elsewhere)) is None  # by one process
    assert_close(elsewhere, two)
    assert len(rows_of(elsewhere)) == STEPS + 1

    codes, texts = ended(start_pair(f"--workdir={one}", "--config.seed=1"))
    assert codes == [2, 2], texts
    for _, errors in texts:
        assert "belongs to a run with another configuration: seed was 0 and is now 1" in errors
