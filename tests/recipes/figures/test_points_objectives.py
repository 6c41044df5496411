"""The figures of the beta study's folder, from runs whose densities are known."""

import json

import numpy as np
import pytest

from ebmjax.evaluate import Grid
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.study.cells import load
from experiments.configs.toy_beta import get_config
from experiments.figures.points_objectives import by_setting, objectives

GRID = Grid(2.0, 40)
TRUTH = GRID.normalise(-8.0 * np.sum(GRID.centres**2, axis=1))
WIDE = np.zeros_like(TRUTH)  # as much mass at the border as anywhere


def fake_run(folder, row, log_density=WIDE, diverged=False):
    """Seed 0 of ``row``, whose density is WIDE at first."""
    run = folder / row / "seed0"
    (run / "monitor").mkdir(parents=True)
    config = get_config()
    config.evals.density.update(half_width=2.0, grid_points=40)
    (run / "config.json").write_text(json.dumps(as_json(config)))
    for step, one in ((0, WIDE), (20, log_density)):
        np.savez(run / "monitor" / f"{step:06d}.npz", log_density=one, truth=TRUTH)
    if diverged:
        (run / "diverged.txt").write_text("Training diverged")
    numbers = {"density_tv": 0.5, "sample_tv": 0.25}
    (run / "evaluation.json").write_text(json.dumps({"density": numbers}))
    return run


@pytest.fixture
def folder(tmp_path):
    """Restricted runs that finished, diverged, and are under way: the truth at beta 0.5."""
    fake_run(tmp_path, "gmm,_beta=0.5", TRUTH + 3.0)
    fake_run(tmp_path, "gmm,_restricted,_batch_corrected,_beta=0")
    fake_run(tmp_path, "gmm,_restricted,_batch_corrected,_beta=0.5", diverged=True)
    fake_run(tmp_path, "gmm,_restricted,_beta=0.5", TRUTH + 3.0)
    fake_run(tmp_path, "gmm,_restricted,_beta=0")
    running = fake_run(tmp_path, "gmm,_restricted,_true_objective,_beta=0")
    (running / "evaluation.json").unlink()
    return tmp_path


def test_the_objectives_of_a_setting_side_by_side(folder, figures):
    found = by_setting(folder)
    assert {name: {o: [*runs] for o, runs in one.items()} for name, one in found.items()} == {
        "gmm": {"default": [0.5]},
        "gmm_restricted": {
            "default": [0.0, 0.5],
            "batch_corrected": [0.0, 0.5],
        },
    }
    objectives(folder)
    assert set(figures) == {"panels_gmm.png", "panels_gmm_restricted.png"}
    squares = np.array(figures["panels_gmm_restricted.png"].axes).reshape(2, 3)
    assert [axes.get_ylabel() for axes in squares[:, 0]] == ["default", "batch corrected"]
    titles = [axes.get_title() for axes in squares[0]]
    assert titles == ["data", "beta 0", "beta 0.5\nTV 0.00"]
    said = [[text.get_text() for axes in line for text in axes.texts] for line in squares]
    assert said == [["not normalisable"], ["not normalisable", "diverged"]]
    data, learned = (squares[0, i].images[0] for i in (0, 2))
    np.testing.assert_allclose(learned.get_array(), data.get_array(), rtol=1e-6)
    assert learned.get_clim() == data.get_clim() == (0.0, pytest.approx(np.exp(TRUTH.max())))


def test_the_study_draws_its_figures(folder):
    for draw in load("studies/toy_beta.py").draw:
        draw(folder)
    for name in ("panels_gmm", "panels_gmm_restricted"):
        assert (folder / f"{name}.png").stat().st_size > 5_000
