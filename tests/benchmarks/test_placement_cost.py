"""The benchmark of placements: what is timed and said, and that memory is seen."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def module():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("placement")


def test_the_ratio_is_of_the_same_turn(module):
    found = {"device": [1.0, 2.0, 4.0], "host": [1.0, 3.0, 4.0], "disk": [2.0, 4.0, 2.0]}
    found = {name: [(one, 2.0) for one in times] for name, times in found.items()}
    rows = [line.split() for line in module.table(found).splitlines()[1:]]
    cores = ["2000", "1.000", "(1.000-1.000)"]
    assert rows[1] == ["host", "3000", "1.000", "(1.000-1.500)", *cores]
    assert rows[2] == ["disk", "2000", "2.000", "(0.500-2.000)", *cores]


def test_every_placement_is_timed_in_turn(module, tmp_path, monkeypatch, capsys):
    module.write_images(tmp_path / "images", 100)
    images = np.load(tmp_path / "images" / "images.npy")
    assert images.shape == (100, 32, 32, 3)
    assert images.std() > 70  # that of uniform levels is 74
    asked = []

    def step_seconds(config, first, data, placement, num_blocks):
        asked.append((placement, type(data.images).__name__, num_blocks))
        return [(0.5, 0.7), (0.5, 0.7)]

    monkeypatch.setattr(module, "step_seconds", step_seconds)
    folder = f"--config.data.path={tmp_path / 'images'}"
    arguments = ["--config=configs/image.py", *module.SMALL, folder, "--turns=2", "--blocks=3"]
    monkeypatch.setattr(sys, "argv", ["placement.py", *arguments])
    module.main()
    turn = [("device", "ndarray", 3), ("host", "ndarray", 3), ("disk", "StoredRows", 3)]
    assert asked == 3 * turn
    row = capsys.readouterr().out.splitlines()[-2].split()
    assert row == ["disk", "500", "1.000", "(1.000-1.000)", "700", "1.000", "(1.000-1.000)"]


def test_points_have_no_placement(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["placement.py", "--config=configs/toy_beta.py"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert "--config=configs/toy_beta.py has no images to place" in capsys.readouterr().err


def test_memory_is_a_row_for_every_placement(module, monkeypatch):
    monkeypatch.setattr(module, "in_a_process", lambda folder, *_: int(folder.name) * 2**20)
    rows = [line.split() for line in module.memory(10, 3, 1).splitlines()]
    assert rows[3] == ["disk", "10", "MiB", "30", "MiB", "20", "MiB"]
