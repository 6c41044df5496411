"""The benchmark of placements: what is timed and said, and that memory is seen."""

import numpy as np
import pytest


@pytest.fixture
def module(load):
    return load("placement")


def test_the_ratio_is_of_the_same_turn(module):
    found = {"device": [1.0, 2.0, 4.0], "host": [1.0, 3.0, 4.0], "disk": [2.0, 4.0, 2.0]}
    found = {name: [(one, 2.0) for one in times] for name, times in found.items()}
    device, host, disk = module.compare(found)
    assert (device["placement"], device["ms a step"], device["ratio"]) == ("device", 2e3, (1, 1, 1))
    assert (host["ms a step"], host["ratio"]) == (3000.0, (1.0, 1.0, 1.5))
    assert (disk["ms a step"], disk["ratio"]) == (2000.0, (2.0, 0.5, 2.0))
    assert (disk["ms of cores"], disk["their ratio"]) == (2000.0, (1.0, 1.0, 1.0))


def test_every_placement_is_timed_in_turn(module, command, tmp_path, monkeypatch):
    module.write_images(tmp_path / "images", 100)
    images = np.load(tmp_path / "images" / "images.npy")
    assert images.shape == (100, 32, 32, 3)
    assert images.std() > 70  # that of uniform levels is 74
    asked = []

    def time_steps(config, first, data, num_blocks):
        asked.append((config.data.placement, type(data.images).__name__, num_blocks))
        return [(0.5, 0.7), (0.5, 0.7)], 0.0

    monkeypatch.setattr(module, "time_steps", time_steps)
    folder = f"--config.data.path={tmp_path / 'images'}"
    small = " ".join(["--config=configs/image.py", *module.SMALL, folder])
    lines = command("placement", f"{small} --turns=2 --blocks=3")
    turn = [("device", "ndarray", 3), ("host", "ndarray", 3), ("disk", "StoredRows", 3)]
    assert asked == 3 * turn
    row = ["disk", "500", "1.000", "(1.000-1.000)", "700", "1.000", "(1.000-1.000)"]
    assert lines[-1].split() == row


def test_points_have_no_placement(refused):
    found = refused("placement", "--config=configs/toy_beta.py")
    assert "--config=configs/toy_beta.py has no images to place" in found


def test_memory_is_a_row_for_every_placement(module, monkeypatch):
    monkeypatch.setattr(module, "in_a_process", lambda folder, *_: int(folder.name) * 2**20)
    *_, disk, images = module.measure_memory(10, 3, 1)
    assert list(disk.values()) == ["disk", 10, 30, 20]
    assert images["MiB, 30 images"] == 30 * 32 * 32 * 3 / 2**20
