"""Checkpoints where the system fails: one message, and nothing is moved or lost."""

import contextlib
import errno
import gc
import os
import resource
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_problems import contents

from ebmjax.training import CheckpointAccessError, Checkpoints, JsonlWriter, read_rows

# As in test_checkpoints.py: orbax leaves reads behind that were under way when it failed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

TREE = {"a": jnp.ones(2)}


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Reads left behind are collected while their warnings are ignored, not at the very end."""
    gc.freeze()  # of all that other tests left, a search takes a second
    yield
    gc.collect()


@contextlib.contextmanager
def limited(kind, soft):
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@pytest.fixture
def saved(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, TREE, {})
    return tmp_path


def test_an_intact_checkpoint_stays_when_file_handles_ran_out(saved):
    before = contents(saved)
    with Checkpoints(saved) as checkpoints:
        num_open = len(os.listdir("/proc/self/fd"))
        with (
            limited(resource.RLIMIT_NOFILE, num_open),
            pytest.raises(CheckpointAccessError, match=r"open files.*may be whole") as info,
        ):
            checkpoints.restore_latest(TREE)
        assert info.value.errno == errno.EMFILE
        assert contents(saved) == before
        assert checkpoints.read_latest()[1] == 2


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (MemoryError(), errno.ENOMEM),
        (OSError(errno.EIO, "Input/output error"), errno.EIO),
        (PermissionError(errno.EACCES, "Permission denied"), errno.EACCES),
        (ValueError("RESOURCE_EXHAUSTED: Out of memory"), errno.ENOMEM),
        (ValueError("Error reading \"d\" [os_error_code='24']"), errno.EMFILE),
        (RuntimeError("what orbax makes of: Cannot allocate memory"), errno.ENOMEM),
    ],
)
def test_an_error_of_the_system_is_no_damage(saved, monkeypatch, error, number):
    def fails(self, step, template):
        raise error

    before = contents(saved)
    monkeypatch.setattr(Checkpoints, "_restore", fails)
    with Checkpoints(saved) as checkpoints:
        with pytest.raises(CheckpointAccessError, match=r"2 could not be read") as info:
            checkpoints.restore_latest(TREE)
        assert info.value.errno == number
    assert contents(saved) == before


def test_without_room_one_message_and_the_others_stay(saved, caplog, capfd):
    before = contents(saved)
    large = np.zeros(2**18, np.float32)
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN  # Python's own choice
    with (
        limited(resource.RLIMIT_FSIZE, 2**19),
        Checkpoints(saved) as checkpoints,
        pytest.raises(CheckpointAccessError, match=r"written: File too large.*Make room"),
    ):
        checkpoints.save(3, large, {})
    assert contents(saved) == before
    assert not caplog.text
    assert capfd.readouterr() == ("", "")


def test_what_fails_in_the_background_is_told_once(saved, monkeypatch, caplog):
    """The room is there when it is looked for, and gone when it is needed."""
    monkeypatch.setattr("ebmjax.training._checkpoints.check_room", lambda *_: None)
    before = contents(saved)
    noise = jax.random.bits(jax.random.key(0), (2**19,))
    with (
        limited(resource.RLIMIT_FSIZE, 2**19),
        pytest.raises(CheckpointAccessError, match="File too large"),
        Checkpoints(saved) as checkpoints,
    ):
        checkpoints.save(3, noise, {})
    assert {path: found for path, found in contents(saved).items() if path in before} == before
    assert not caplog.text


def test_a_row_that_finds_no_room_names_its_file(tmp_path):
    writer = JsonlWriter(tmp_path / "metrics.jsonl")
    writer.start(0)
    writer.write(0, {"loss": 1.0})
    size = writer.path.stat().st_size
    with limited(resource.RLIMIT_FSIZE, size + 5):
        with pytest.raises(OSError, match=r"metrics\.jsonl") as info:
            writer.write(1, {"loss": 1.0})
        writer.close()
    assert info.value.errno == errno.EFBIG
    assert [row["step"] for row in read_rows(writer.path)] == [0]
