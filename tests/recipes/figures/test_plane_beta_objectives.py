"""The figures of the beta study's folder, from runs whose densities are known."""

import json

import numpy as np
import pytest

from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.models.plane.fields import configure
from ebmjax.recipes.models.plane.grid import Grid, normalised
from ebmjax.recipes.study.study_file import load
from experiments.figures.plane_objectives import by_setting, objectives

GRID = Grid(2.0, 40)
TRUTH = normalised(-8.0 * np.sum(GRID.centres**2, axis=1), GRID)
WIDE = np.zeros_like(TRUTH)  # as much mass at the border as anywhere
BETAS = (0.0, 0.5)


def fake_run(folder, row, objective="default", diverged=()):
    """Seed 0 of ``row``: at beta 0.5 the truth, at 0 no density that could be normalised."""
    run = folder / row / "seed0"
    (run / "monitor").mkdir(parents=True)
    loss = {"loss.betas": BETAS, "loss.beta_variant": objective}
    base = {**loss, "eval.half_width": 2.0, "eval.grid_points": 40}
    config = configure(base=base, variants={})
    (run / "config.json").write_text(json.dumps(as_json(config)))
    np.savez(run / "truth.npz", log_density=TRUTH)
    for step, second in ((0, WIDE), (20, TRUTH + 3.0)):
        np.savez(run / "monitor" / f"{step:06d}.npz", log_densities=[WIDE, second])
    numbers = {"density_tv": 0.5, "sample_tv": 0.25}
    by_beta = {
        name: {"beta": beta, "is_diverged": float(beta in diverged), **numbers}
        for name, beta in (("0_5", 0.5), ("0", 0.0))
    }
    (run / "evaluation.json").write_text(json.dumps({"by_beta": by_beta}))
    return run


@pytest.fixture
def folder(tmp_path):
    """Restricted runs that finished, lost a model, diverged as a whole, and are under way."""
    fake_run(tmp_path, "gmm")
    fake_run(tmp_path, "gmm,_restricted,_batch_corrected", "batch_corrected", diverged=(0.5,))
    fake_run(tmp_path, "gmm,_restricted")
    lost = fake_run(tmp_path, "gmm,_restricted,_no_positive", "no_positive")
    (lost / "evaluation.json").unlink()
    (lost / "diverged.txt").write_text("Training diverged")
    running = fake_run(tmp_path, "gmm,_restricted,_true_objective", "true_objective")
    (running / "evaluation.json").unlink()
    return tmp_path


def test_the_runs_of_a_setting_by_objective(folder):
    assert {name: list(runs) for name, runs in by_setting(folder).items()} == {
        "gmm": ["default"],
        "gmm_restricted": ["default", "no_positive", "batch_corrected"],
    }


def test_the_objectives_of_a_setting_side_by_side(folder, figures):
    objectives(folder)
    assert set(figures) == {"panels_gmm.png", "panels_gmm_restricted.png"}
    squares = np.array(figures["panels_gmm_restricted.png"].axes).reshape(3, 3)
    assert [axes.get_visible() for axes in squares[:, 0]] == [True, False, False]
    labels = [axes.get_ylabel() for axes in squares[:, 1]]
    assert labels == ["default", "no positive", "batch corrected"]
    titles = [[axes.get_title() for axes in line] for line in squares]
    assert titles == [["data", "beta 0", "beta 0.5\nTV 0.00"], ["", "", ""], ["", "", ""]]
    said = [[text.get_text() for axes in line for text in axes.texts] for line in squares]
    assert said == [
        ["not normalisable"],
        ["diverged", "diverged"],
        ["not normalisable", "diverged"],
    ]
    data, learned = (squares[0, i].images[0] for i in (0, 2))
    np.testing.assert_allclose(learned.get_array(), data.get_array(), rtol=1e-6)
    assert learned.get_clim() == data.get_clim() == (0.0, pytest.approx(np.exp(TRUTH.max())))


def test_the_study_draws_its_figures(folder):
    load("studies/toy_beta.py").draw(folder)
    for name in ("divergences", "panels_gmm", "panels_gmm_restricted"):
        assert (folder / f"{name}.png").stat().st_size > 5_000
