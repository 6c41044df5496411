"""The comparison of fields: what is timed in turn, and the ratios within a turn."""

import pytest


@pytest.fixture
def module(load):
    return load("compare")


def test_the_ratio_is_of_the_same_turn(module):
    found = {"": [1.0, 2.0, 4.0], "a": [1.0, 3.0, 4.0], "b": [2.0, 4.0, 2.0]}
    found = {name: [(one, 2.0) for one in times] for name, times in found.items()}
    base, a, b = module.describe(found)
    assert (base["fields"], base["ms a step"], base["ratio"]) == ("", 2e3, (1, 1, 1))
    assert (a["ms a step"], a["ratio"]) == (3000.0, (1.0, 1.0, 1.5))
    assert (b["ms a step"], b["ratio"]) == (2000.0, (2.0, 0.5, 2.0))
    assert (b["ms of cores"], b["their ratio"]) == (2000.0, (1.0, 1.0, 1.0))


def test_every_variant_is_timed_in_turn(module, command, load, tmp_path, monkeypatch):
    load("memory").write_images(tmp_path / "images", 100)
    asked = []

    def time_steps(config, experiment, num_blocks):
        placement, images = config.data.placement, type(experiment.data.images).__name__
        asked.append((placement, config.mesh.num_shards, images, num_blocks))
        return [(0.5, 0.7), (0.5, 0.7)], 0.0

    monkeypatch.setattr(module.configured, "time_steps", time_steps)
    small = [*load("memory").SMALL, f"--config.data.path={tmp_path / 'images'}"]
    line = " ".join(["--config=configs/image.py", *small, "--config.mesh.num_shards=2"])
    versus = "--versus data.placement=disk --versus mesh.num_shards=4"
    lines = command("compare", f"{line} --turns=2 --blocks=3 {versus}")
    turn = [("device", 2, "ndarray", 3), ("disk", 2, "StoredRows", 3), ("device", 4, "ndarray", 3)]
    assert asked == 3 * turn
    row = ["data.placement=disk", "500", "1.000", "(1.000-1.000)"]
    assert lines[-2].split()[1:] == [*row, "700", "1.000", "(1.000-1.000)"]


def test_a_field_that_is_not_there_is_refused(refused):
    found = refused("compare", "--config=configs/toy_beta.py --versus data.placement=host")
    assert "data.placement" in found
