"""The comparison of fields: what is timed in turn, and the ratios within a turn."""

import numpy as np
import pytest


@pytest.fixture
def module(load):
    return load("configuration")


@pytest.mark.slow
def test_every_variant_is_timed_in_turn(module, command, tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (100, 32, 32, 3), np.uint8)
    np.save(tmp_path / "images.npy", images)
    asked = []

    def time_steps(config, experiment, num_blocks):
        placement, images = config.data.placement, type(experiment.data.images).__name__
        asked.append((placement, config.mesh.num_shards, images, num_blocks))
        return [0.5, 0.5], 0.0

    monkeypatch.setattr(module.configured, "time_steps", time_steps)
    fields = {
        "model.factory": "",
        "data.name": "npz",
        "data.path": tmp_path,
        "data.holdout": 32,
        "data.max_train": None,
        "data.image_size": None,
        "data.num_classes": 0,
        "model.features": "(4,8)",
        "mesh.num_shards": 2,
    }
    line = " ".join(f"--config.{name}={value}" for name, value in fields.items())
    versus = "--versus data.placement=disk --versus mesh.num_shards=4"
    asks = f"--config=configs/image.py {line} --turns=2 --blocks=3 {versus}"
    lines = command("compare", asks)
    turn = [("device", 2, "ndarray", 3), ("disk", 2, "StoredRows", 3), ("device", 4, "ndarray", 3)]
    assert asked == 3 * turn
    cells = [cell.strip() for cell in lines[-2].split("|")[2:-1]]
    assert cells == ["data.placement=disk", "500", "1 (1-1)"]


def test_a_field_that_is_not_there_is_refused(refused):
    found = refused("compare", "--config=configs/toy_beta.py --versus data.shelf=host")
    assert "data.shelf" in found
