"""The numbers of the house: it counts what is there."""

from dataclasses import replace

import pytest
from ml_collections import ConfigDict

from ebmjax._ranges import COUNT
from ebmjax.recipes.config.declare import Part, field, when_set
from ebmjax.recipes.models import build


@pytest.fixture
def house(load):
    return load("house")


def test_lines_files_and_functions_are_counted(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "ROOT", tmp_path)
    monkeypatch.setattr(house, "ROOMS", ("ebmjax", "ebmjax/recipes", "experiments", "tests"))
    for room in house.ROOMS:
        (tmp_path / room / "inner").mkdir(parents=True)
    (tmp_path / "ebmjax" / "a.py").write_text("1\n\n2\n")
    (tmp_path / "ebmjax" / "b.txt").write_text("no Python\n")
    (tmp_path / "ebmjax" / "recipes" / "c.py").write_text("def f(): ...\ndef _g(): ...\n")
    (tmp_path / "experiments" / "inner" / "d.py").write_text(301 * "1\n")
    assert house.measure_sizes() == {
        "ebmjax/": "5 lines, 2 files",
        "ebmjax/recipes/": "2 lines, 1 files",
        "experiments/": "301 lines, 1 files",
        "tests/": "0 lines, 0 files",
        "ebmjax/ without recipes/": "3 lines",
        "ebmjax/ and experiments/": "306 lines",
        "fullest folder of recipes/": "ebmjax/recipes, 1 files",
        "files over 300 lines": "1 experiments/inner/d.py",
        "public functions without a docstring": "1 c.f",
    }


def test_an_arrow_is_an_import_of_another_room(house, tmp_path, monkeypatch):
    monkeypatch.setattr(house, "RECIPES", tmp_path)
    texts = {
        "one/__init__.py": "from ebmjax.recipes.one import a",
        "one/a.py": "from ebmjax.recipes import two, nothing\nimport ebmjax.recipes",
        "two/__init__.py": "",
        "two/deep/b.py": "def f():\n    import ebmjax.recipes.three.c",
        "three/__init__.py": "import ebmjax.samplers.two",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert house.find_arrows() == {("one", "two"), ("two", "three")}


def test_fields_are_counted_by_name_by_family_and_where_set(house, tmp_path, monkeypatch):
    own = field(0, COUNT, "a field")
    of_sampler = replace(own, part=Part("sampler.a", when_set("sampler.name")))
    declared = {
        "joint": {"seed": own, "loss.name": own, "data.path": own, "sampler.a.b": of_sampler},
        "plane": {"seed": own, "sampler.a.b": of_sampler},
    }
    monkeypatch.setattr(house.families, "FAMILIES", declared)
    monkeypatch.setattr(house.families, "all_fields", declared.get)
    monkeypatch.setattr(house, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("python run.py --config.loss.name=a; my.seed.b\n")
    (tmp_path / "docs" / "configuration.md").write_text("seed, loss.name and data.path\n")
    assert house.count_fields() == (4, 5, 3)


def test_frames_entered(house):
    config = ConfigDict({"data": {"name": "digits"}})

    def run():
        house.command_line.resolve("--seed=1")
        build.placement(config)
        return [house.command_line.files for _ in range(2)]

    found = house.frames_entered(run)
    assert [entry[1:] for entry in found] == [("resolve", False), ("placement", True)]
