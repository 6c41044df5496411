import shutil

import matplotlib
import numpy as np
import pytest
from experiment_runs import build_experiment, contents, digits

from ebmjax.recipes.evaluators import plots


def test_a_column_skips_rows_without_it_and_turns_null_into_nan():
    rows = [
        {"step": 1},
        {"step": 2, "loss": 1.5, "energies": [1.0, None]},
        {"step": 3, "loss": None, "energies": [3.0, 4]},
    ]
    steps, losses = plots.column(rows, "loss")
    np.testing.assert_array_equal(steps, [2, 3])
    np.testing.assert_array_equal(losses, [1.5, np.nan])
    _, energies = plots.column(rows, "energies")
    np.testing.assert_array_equal(energies, [[1.0, np.nan], [3.0, 4.0]])
    assert len(plots.column(rows, "absent")[0]) == 0


def test_a_figure_that_fails_is_not_saved_and_changes_no_style(tmp_path):
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), plots.figure(tmp_path / "none.png"):
        1 / 0  # noqa: B018
    assert not (tmp_path / "none.png").exists()
    assert dict(matplotlib.rcParams) == before


@pytest.fixture
def bare(smoke, tmp_path):
    """Makes a folder with only the files that a run's plots are drawn from."""
    shutil.copytree(smoke / "monitor", tmp_path / "monitor")
    shutil.copy(smoke / "metrics.jsonl", tmp_path)
    (tmp_path / "plots").mkdir()
    return tmp_path


def test_the_plots_can_be_drawn_again_from_the_folder_alone(bare, smoke):
    before = contents(bare)
    build_experiment(digits(), bare).draw()
    again = contents(bare)
    assert {name: again[name] for name in before} == before
    new = again.keys() - before.keys()
    assert len(new) == 3
    original = contents(smoke)
    for name in new:
        assert again[name] == original[name], name


def test_numbers_of_the_users_parts_have_panels(tmp_path, monkeypatch):
    rows = [{"step": 1, "loss": 1.0, "my_score": 2.0, "also $mine": None, "sample_fid": 3.0}]
    rows += [{"step": 2, "another": [1.0, 2.0], "recovery": {"number": 1}, "ood.mine": 1.0}]
    drawn = []
    monkeypatch.setattr(plots, "by_step", lambda _, label, scale: drawn.append(label))
    own = {"loss.name": "mine.py:loss"}
    wanted = [("loss", ("loss",), "linear"), ("none", ("nothing",), "log")]
    plots.panels(tmp_path / "training.png", rows, wanted, own)
    assert drawn == ["loss", "my score", "another"]
    drawn.clear()
    wanted = [("loss", ("loss", "my_score"), "linear")]
    plots.panels(tmp_path / "training.png", rows, wanted, own)
    assert drawn == ["loss", "another"]
    drawn.clear()
    many = [{"step": 1, "loss": 1.0} | {f"mine_{i}": 1.0 for i in range(99)}]
    plots.panels(tmp_path / "few.png", many, wanted, {"evals.functions": ("mine.py:f",)})
    assert len(drawn) == 1 + plots.MOST_OWN
    drawn.clear()
    plots.panels(tmp_path / "none.png", many, wanted, {"loss.name": "beta"})
    assert drawn == ["loss"]
