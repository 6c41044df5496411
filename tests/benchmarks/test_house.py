"""The benchmark of the house: it counts what is there."""

import pytest


@pytest.fixture
def house(load):
    return load("house")


def test_sizes(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "ROOT", tmp_path)
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("1\n\n2\n")
    (tmp_path / "room" / "b.txt").write_text("no Python\n")
    assert house.sizes("room") == (1, 3)


def test_arrows_of_recipes_go_one_way(house):
    found = house.arrows()
    assert ("joint", "core") in found
    assert not {(b, a) for a, b in found} & found


def test_fields_are_counted_by_name_and_by_family(house, monkeypatch):
    declared = {"joint": {"seed": 0, "loss.name": 0}, "plane": {"seed": 0}}
    monkeypatch.setattr(house.families, "FAMILIES", declared)
    monkeypatch.setattr(house.families, "fields_of", declared.get)
    assert house.fields() == (2, 3)


def test_functions_entered(house):
    def run():
        house.command_line.resolve("--seed=1")
        return [house.command_line.files for _ in range(2)]

    assert {name for _, name in house.functions_entered(run)} == {"resolve"}
