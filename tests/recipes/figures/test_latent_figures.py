"""Figures of the thermodynamic thesis on a study of random numbers."""

import numpy as np
import pytest
from latent_study_folder import LOST, make

from experiments.figures import latent

VARIANCE, KID = "coordinate_gradient_variance", latent.INFINITY.format("kid_rbf")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder, and what each run measured, by the row's label."""
    folder = tmp_path_factory.mktemp("study")
    return folder, make("", folder)


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
    means, spreads = latent.means([lost], VARIANCE, KID)
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
    each = {"fig10_kid_rbf", "fig10_fid"}
    expected = {f"{name}_{one}" for name in each for one in latent.ESTIMATORS}
    assert drawn == expected
    assert len((folder / "figures" / "quadratic_fits.md").read_text().splitlines()) == 4 + 2 * 4
