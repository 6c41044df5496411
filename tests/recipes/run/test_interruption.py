import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest
from experiment_runs import (
    EXPERIMENTS,
    RUN,
    contents,
    last_step,
    launch,
    rows_of,
    summary_of,
    wait_until,
)
from linear_family import LINEAR, NAME, hold, linear

from ebmjax.recipes.config import command_line

STEPS = 120
ADAPTED = {
    "sampler.names": ("sgld", "mala"),
    "sampler.target_acceptance": 0.57,
    "sampler.mala.temperature": 5e-5,
}
"""Image energies whose MALA has steps of its own, in the state."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a long run that nothing interrupted."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    assert launch(linear("long"), NAME, str(workdir)) is None
    return workdir


@contextlib.contextmanager
def sending(ready, send):
    """``send()`` happens as soon as ``ready()``, while what stands inside runs."""

    def wait_and_send():
        try:
            wait_until(ready)
        finally:
            send()

    sender = threading.Thread(target=wait_and_send)
    previous = signal.signal(signal.SIGTERM, lambda *_: None)  # should the run be over already
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, previous)


@contextlib.contextmanager
def interrupted(find, held, step, send, ended=lambda: False):
    """Runs wait in their evaluation after ``step``; then ``send()``, and they may go on."""
    hold(held, step)
    name = f"plots/weight_{step:06d}.txt"

    def send_and_release():
        send()
        (held / "hold").unlink()

    ready = lambda: ended() or any((folder / name).exists() for folder in find())  # noqa: E731
    with sending(ready, send_and_release):
        yield


def assert_same_run(workdir, uninterrupted):
    """The same bits: parameters, every row of metrics, every picture."""
    assert [row["step"] for row in rows_of(workdir)] == list(range(STEPS + 1))
    ours, theirs = contents(workdir), contents(uninterrupted)
    for name in theirs:
        if name.startswith("plots/") or name == "metrics.jsonl":
            assert ours[name] == theirs[name], name
    for name in ("params_sha256", "steps", "loss", "test_accuracy"):
        assert summary_of(workdir)[name] == summary_of(uninterrupted)[name]


def start(*arguments, cwd):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def signalled(process, workdir, held, step, signum):
    """The output of a process that gets a signal while it waits after ``step``."""
    send, ended = partial(process.send_signal, signum), lambda: process.poll() is not None
    with interrupted(lambda: [workdir], held, step, send, ended):
        return process.communicate(timeout=200)


@pytest.mark.slow
def test_killed_then_interrupted_then_continued_is_as_if_never(whole, tmp_path):
    """From three working directories, as a person would: kill -9, then Ctrl-C, then the advice."""
    workdir = tmp_path / "a run"  # with a space, for the command that is printed
    held = tmp_path / "held"
    held.mkdir()
    config = f"{LINEAR}:long"
    options = [f"--config.data.path={held}", f"--workdir={workdir}"]

    hold(held, 24)  # before it starts
    killed = start(RUN, f"--config={config}", *options, cwd=tmp_path)
    signalled(killed, workdir, held, 24, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert not (workdir / "summary.json").exists()
    # It may have died before the last checkpoint was whole.
    saved = {int(p.name) for p in (workdir / "checkpoints").iterdir() if p.name.isdecimal()}
    assert saved & {10, 20}

    hold(held, 60)
    stopped = start(RUN, "--config", config, *options, cwd=EXPERIMENTS)
    output, errors = signalled(stopped, workdir, held, 60, signal.SIGINT)
    assert stopped.returncode == 130, errors
    assert "Traceback" not in errors
    assert not (workdir / "summary.json").exists()
    *_, message, advice = output.splitlines()
    step = last_step(workdir)
    assert message == f"Interrupted at step {step} of {STEPS}; saved. Continue with:"
    assert 60 <= step < STEPS
    assert (workdir / "checkpoints" / str(step)).is_dir()

    program, *arguments = shlex.split(advice)
    assert program == "python"
    continued = start(*arguments, cwd=EXPERIMENTS)
    _, errors = continued.communicate(timeout=200)
    assert continued.returncode == 0, errors
    assert_same_run(workdir, whole)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_stops_it_too_and_it_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py", "--config=a.py:long", "--config.seed=0"])
    config = linear("long", **{"data.path": str(tmp_path)})
    with interrupted(lambda: list(tmp_path.glob("runs/a/*")), tmp_path, 14, terminate):
        assert launch(config, "configs/a.py:long", None) == signal.SIGTERM
    (workdir,) = tmp_path.glob("runs/a/*")
    step = last_step(workdir)
    assert 14 <= step < STEPS
    assert (workdir / "checkpoints" / str(step)).is_dir()
    assert not (workdir / "summary.json").exists()
    assert f"Unfinished: step {step} of {STEPS}" in (workdir / "report.html").read_text()
    # The folder got its name from the clock, so the advice has to tell it.
    assert capsys.readouterr().out.endswith(
        f"Interrupted at step {step} of {STEPS}; saved. Continue with:\n"
        f"  python run.py --config=a.py:long --config.seed=0 "
        f"--workdir={workdir.relative_to(tmp_path)}\n"
    )
    assert launch(config, "configs/a.py:long", str(workdir)) is None
    assert_same_run(workdir, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("igebm_digits", ADAPTED),
        ("svgdjem_digits", {}),
        ("lebm_digits", {}),
        ("toy_samplers", {}),
        ("toy_beta", {"loss.name": "denoising"}),
        ("toy_beta", {"loss.name": "energy_matching", "mesh.num_shards": 2}),
        ("jem_digits", {"loss.name": "energy_matching", "optimizer.rho": 0.1}),
        ("jem_digits", {"loss.name": "eb_jdat", "mesh.num_shards": 2, "optimizer.rho": 0.1}),
        ("jem_digits", {"loss.name": "dat", "model.norm": "batch"}),
        ("jem_digits", {"train.max_steps": 7, "optimizer.schedule": "cosine"}),
        ("joint", {}),
        ("image", {"mesh.num_shards": 2}),
        ("latent", {"mesh.num_shards": 2}),
    ],
)
def test_every_family_goes_on_to_the_same_bits(name, overrides, tmp_path):
    flags = [f"--config.{field}={value}" for field, value in overrides.items()]
    config = command_line.read(f"configs/{name}.py:smoke", flags)
    config.train.num_epochs *= 4
    config.train.log_every = 1
    config.evals.every_epochs = config.train.num_epochs
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert launch(config, "configs/a.py:smoke", str(whole)) is None
    with sending(lambda: last_step(broken) >= 3, terminate):
        assert launch(config, "configs/a.py:smoke", str(broken)) == signal.SIGTERM
    stopped = last_step(broken)
    assert launch(config, "configs/a.py:smoke", str(broken)) is None
    assert 3 <= stopped < summary_of(broken)["steps"]
    for name in ("params_sha256", "steps", "loss"):
        assert summary_of(broken)[name] == summary_of(whole)[name]
    assert rows_of(broken) == rows_of(whole)
