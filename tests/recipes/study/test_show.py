"""``ebmjax list``: configurations, studies, and the rows of a study."""

import sys

import pytest
from experiment_runs import EXPERIMENTS

from ebmjax.recipes.config import show_fields
from ebmjax.recipes.study import show


@pytest.fixture
def listed(monkeypatch, capsys):
    """Lines of ``ebmjax list ARGUMENTS``."""

    def listed(*arguments):
        monkeypatch.setattr(sys, "argv", ["ebmjax list", *arguments])
        show.main()
        return capsys.readouterr().out.splitlines()

    return listed


def test_every_configuration_and_study_is_listed_with_its_variants(listed, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lines = listed()
    for kind in ("configs", "studies"):
        for path in (EXPERIMENTS / kind).glob("*.py"):
            assert f"{kind}/{path.name}" in lines
    assert "  :smoke :bfloat16 :long :shifted :restricted :degenerate :schedule" in "\n".join(lines)
    place = lines.index("studies/chains.py")
    assert lines[place + 1].startswith("  Profiles of chains")
    assert lines[place + 2 : place + 4] == ["  6 rows x 3 seeds", "  :igebm 6 rows x 3 seeds"]


OWN = {
    "mine.py": '"""Mine.\n\nMore."""\ndef get_config():\n    return {}\n',
    "broken.py": "import nowhere\ndef get_config():\n    return {}\n",
    "table.py": '"""Table."""\nfrom ebmjax.recipes.study import Study\nSTUDY = Study({}, {})\n',
    "train.py": "print('I am a program and shall not be run.')\n",
    "page.py": "this is no Python\n",
}


def test_a_folder_of_ones_own_is_listed_without_running_other_programs(listed, tmp_path):
    for name, text in OWN.items():
        (tmp_path / name).write_text(text)
    error = "rows must be a dict of a row or more"
    assert listed(str(tmp_path)) == [
        f"{tmp_path}/broken.py",
        "  ",
        f"{tmp_path}/mine.py",
        "  Mine.",
        f"{tmp_path}/table.py",
        "  Table.",
        f"  {tmp_path}/table.py, line 3: ConfigError: {error}; got {{}}.",
    ]
    assert show_fields.variants(tmp_path / "mine.py") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing"], "no configuration or study file 'nothing'"),
        (["."], "no configuration or study in .: name a folder"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, expected, listed, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        listed(*arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {expected}")
