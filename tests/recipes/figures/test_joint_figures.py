"""The figures of a study of joint energy models."""

import json

import numpy as np
import pytest

from ebmjax.recipes.study.study_file import load
from experiments.figures import joint


def test_landscapes_start_at_the_energy_of_the_parameters(tmp_path, figures):
    coordinates = np.linspace(-1.0, 1.0, 3)
    energies = np.array([[7.0, 5.0, np.nan], [4.0, 3.0, 9.0], [np.inf, 2.0, 1.0]])
    broken = np.full((3, 3), np.nan)
    for row, array in {"one": energies, "flat": np.full((3, 3), 8.0), "broken": broken}.items():
        (tmp_path / row / "seed0").mkdir(parents=True)
        arrays = {"landscape_coordinates": coordinates, "landscape_energies": array}
        np.savez(tmp_path / row / "seed0" / "evaluation.npz", **arrays)
    joint.landscapes({"one": "a bowl", "flat": "a plain", "broken": "nothing"}, tmp_path)
    (figure,) = figures.values()
    titled = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in titled] == [
        "a bowl\nrange 8 nats",
        "a plain\nrange 0 nats",
    ]
    (filled,) = titled[0].collections
    np.testing.assert_allclose(filled.levels, np.linspace(-2.0, 6.0, 25))
    assert not titled[1].collections  # a plain has no contours


def evaluated(folder, robustness):
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text(json.dumps({"robustness": robustness}))


@pytest.mark.slow
def test_the_study_draws_the_curves_of_every_row(tmp_path, figures):
    """Means and ranges over seeds of either norm; of the refined, where there are any."""
    draw = load("studies/jem_robustness.py").draw
    draw(tmp_path)
    assert not figures
    curve = {"0": 1.0, "16": 0.5}
    evaluated(tmp_path / "softmax" / "seed0", {"linf": curve, "l2": {"0": 1.0, "128": 0.25}})
    for seed, accuracy in enumerate((0.75, 0.25)):
        halved = {"linf": {"0": 0.5, "16": accuracy / 2}, "l2": curve}
        evaluated(
            tmp_path / "SADA-JEM,_K_=_5" / f"seed{seed}",
            {"linf": {"0": 1.0, "16": accuracy}, "l2": curve, "refined": halved},
        )
    evaluated(tmp_path / "SADA-JEM,_K_=_5" / "seed2", {"linf": {"0": 0.0, "16": 0.0}, "l2": curve})
    (tmp_path / "SADA-JEM,_K_=_5" / "seed2" / "diverged.txt").touch()
    draw(tmp_path)
    (figure,) = figures.values()
    assert list(figures) == ["robustness.png"]
    found = [
        {line.get_label(): line.get_xydata().tolist() for line in axis.lines}
        for axis in figure.axes
    ]
    assert found == [
        {"softmax": [[0, 1], [16, 0.5]], "SADA-JEM, K = 5": [[0, 1], [16, 0.5]]},
        {"softmax": [[0, 1], [128, 0.25]], "SADA-JEM, K = 5": [[0, 1], [16, 0.5]]},
        {"SADA-JEM, K = 5": [[0, 0.5], [16, 0.25]]},
        {"SADA-JEM, K = 5": [[0, 1], [16, 0.5]]},
    ]
    _, shade = figure.axes[0].collections
    corners = shade.get_paths()[0].vertices
    assert corners[corners[:, 0] == 16][:, 1].min() == 0.25
    assert corners[corners[:, 0] == 16][:, 1].max() == 0.75
    names = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    assert len(set(names.values())) == 2
    assert {line.get_color() for line in figure.axes[2].lines} == {names["SADA-JEM, K = 5"]}
    assert "refined" not in figure.axes[0].get_title()
    assert "refined" in figure.axes[2].get_title()
