"""Figures of the thermodynamic thesis on a study of random numbers."""

import json

import numpy as np
import pytest

from ebmjax.recipes.study.cells import cells, load
from experiments.figures import latent

LOST = "tempered p=10.0"  # its last seed has no number


def write_run(cell, rng):
    """The folder of a finished run; returns its evaluation, of random numbers."""
    is_lost = cell.label == LOST and cell.seed == 4
    *numbers, report = [None if is_lost else x for x in rng.uniform(0.01, 0.02, 4)]
    for name in reversed(latent.KID.split(".")):
        report = {name: report}
    report |= dict(zip(latent.VARIANCES, numbers, strict=True))
    cell.folder.mkdir(parents=True)
    (cell.folder / "evaluation.json").write_text(json.dumps(report))
    return report


def make(folder):
    """A study's folder of random numbers; label to the evaluations of its runs."""
    rng = np.random.default_rng(0)
    study = load("studies/thermo_digits.py")
    found = {}
    for cell in cells(study, folder, study.num_seeds):
        found.setdefault(cell.label, []).append(write_run(cell, rng))
    return found


VARIANCE = "coordinate_gradient_variance"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder, and what each run measured, by the row's label."""
    folder = tmp_path_factory.mktemp("study")
    return folder, make(folder)


def test_names_tell_the_rows_of_a_sweep_from_its_variants(study):
    rows = latent.gather(study[0])
    swept = latent.sweep(rows, "tempered")
    assert [row.swept for row in swept] == [0.1, 0.3, 1.0, 3.0, 6.0, 10.0]
    assert [row.swept for row in latent.sweep(rows, "vanilla")] == [25, 50, 75, 150]
    found = latent.regimes(rows, "tempered")
    assert [len(mine) for mine in found.values()][:3] == [4, 3, 3]
    assert "p=0.1_N_t=30" in [row.changes for row in found["variants"]]


def test_points_are_means_over_the_seeds_with_both_numbers(study):
    folder, measured = study
    rows = [row for row in latent.gather(folder) if row.estimator == "tempered"]
    (lost,) = [row for row in rows if row.changes == LOST.split()[1]]
    means, spreads = latent.means([lost], VARIANCE)
    kept = np.array([one[VARIANCE] for one in measured[LOST][:-1]])
    assert means[0, 0] == pytest.approx(kept.mean())
    assert spreads[0, 0] == pytest.approx(kept.std(ddof=1))


def test_a_parabola_is_fitted_and_judged_by_left_out_points():
    x = np.arange(5.0)
    num, first, parabola, line, constant = latent.fit(x, 3.0 * x**2 - x)
    assert (num, first) == pytest.approx((5, 3.0))
    assert parabola == pytest.approx(0.0, abs=1e-18)
    assert parabola < line < constant
    # By hand: each point is foretold by the mean of the others.
    assert latent.fit(np.arange(3.0), np.array([0.0, 1.0, 5.0]))[4] == pytest.approx(
        np.mean(np.square([3.0 - 0.0, 2.5 - 1.0, 0.5 - 5.0]))
    )
    assert np.isnan(latent.fit(np.arange(3.0), x[:3])[2])


@pytest.mark.slow
def test_every_figure_is_drawn(study):
    folder, _ = study
    latent.draw(folder)
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert drawn == {f"fig10_kid_rbf_{one}" for one in latent.ESTIMATORS}
    assert len((folder / "figures" / "quadratic_fits.md").read_text().splitlines()) == 4 + 2 * 4
