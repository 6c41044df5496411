"""A path that begins with "~" lies in the home folder, wherever the library takes one."""

from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmjax import data, networks, training
from ebmjax.recipes.config import files
from ebmjax.recipes.run import tracking

OPTIMIZER = optax.sgd(0.1)


def state() -> training.TrainState:
    return training.init_state({"w": jnp.zeros(())}, OPTIMIZER)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home folder; afterwards the working folder, beside it, must be empty."""
    place, here = tmp_path / "home", tmp_path / "here"
    place.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.chdir(here)
    yield place
    assert not list(here.iterdir())


def test_what_training_writes_and_reads(home: Path) -> None:
    with training.Checkpoints("~/run") as checkpoints:
        checkpoints.save(3, state(), {})
    assert training.warm_start(state(), OPTIMIZER, "~/run").step == 3
    writer = training.JsonlWriter("~/metrics.jsonl")
    writer.start(0)
    writer.write(1, {"loss": 2.0})
    writer.close()
    assert training.read_rows("~/metrics.jsonl") == [{"step": 1, "loss": 2.0}]
    board = tracking.TensorBoardWriter("~/board")
    board.start(0)
    board.close()
    assert {path.name for path in home.iterdir()} == {"run", "metrics.jsonl", "board"}


def test_what_is_read(home: Path) -> None:
    images = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8)
    np.savez(home / "mine.npz", train_images=images, weights=np.zeros(3, np.float32))
    assert networks.read_tensors("~/mine.npz").keys() == {"train_images", "weights"}
    with pytest.raises(ValueError, match="Inception"):
        networks.load_inception("~/mine.npz")
    assert data.load_images("npz", "train", path="~/mine.npz").data.images.shape == (2, 8, 8, 1)
    with pytest.raises(FileNotFoundError, match=f"{home}/nowhere"):
        data.load_images("folder", "train", path="~/nowhere")
    (home / "mine.py").write_text("")
    assert files.find("~/mine.py", "configs", "configuration") == home / "mine.py"
