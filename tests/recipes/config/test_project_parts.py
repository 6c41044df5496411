"""Parts of the project's experiments, named FILE.py:FUNCTION: where they are found, and trust."""

import pytest

from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.config.user_parts import find_function
from ebmjax.recipes.run import trained
from experiments.configs import toy_samplers

LITERAL = "literal/psgld.py:literal_psgld"


def test_a_function_of_the_project_is_found_from_anywhere(tmp_path, monkeypatch):
    """After the current folder's own file."""
    monkeypatch.chdir(tmp_path)
    assert find_function("sampler.name", LITERAL).__name__ == "literal_psgld"
    (tmp_path / "literal").mkdir()
    (tmp_path / "literal" / "psgld.py").write_text("def literal_psgld():\n    return 3\n")
    assert find_function("sampler.name", LITERAL)() == 3


def test_a_folder_that_names_a_function_of_the_project_runs_none(tmp_path):
    """A file of that name in the current folder would be run in its place."""
    config, path = toy_samplers.get_config(), tmp_path / "config.json"
    config.eval.comparison.samplers = ("sgld", LITERAL)
    name = "eval.comparison.samplers"
    with pytest.raises(WorkdirError, match=r"code from outside ebmjax, config\.eval\.comp"):
        trained._check_code(path, config, {}, False)
    trained._check_code(path, config, {name: (LITERAL,)}, False)
