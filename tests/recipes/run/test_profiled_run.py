"""--profile of a run."""

import pytest
from experiment_runs import launch
from linear_family import NAME, linear

from ebmjax.recipes.config.errors import WorkdirError


@pytest.mark.slow
def test_a_run_leaves_its_trace_and_says_so(tmp_path, capsys):
    config = linear(**{"train.steps_per_dispatch": 1})
    assert launch(config, NAME, str(tmp_path / "run"), num_traced=2) is None
    assert "Trace of 2 steps in" in capsys.readouterr().out
    assert list((tmp_path / "run" / "profile").rglob("*.xplane.pb"))


@pytest.mark.slow
def test_a_finished_run_has_nothing_to_trace_and_says_so(tmp_path, capsys):
    for _ in range(2):
        launch(linear(), NAME, str(tmp_path / "run"), num_traced=1000)
    assert "--profile traced nothing" in capsys.readouterr().out


def test_an_evaluation_is_not_traced(tmp_path):
    with pytest.raises(WorkdirError, match="leave it out with --mode=eval"):
        launch(linear(), NAME, str(tmp_path), "eval", num_traced=2)
    assert not list(tmp_path.iterdir())
