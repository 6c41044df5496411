"""The pictures of points show the numbers they are given."""

import math

import numpy as np
import pytest

from ebmjax.recipes.evaluators import comparison
from ebmjax.recipes.evaluators import density as density_plots
from ebmjax.recipes.evaluators.density import Grid, normalise, smooth_histogram

GRID = Grid(2.0, 40)
TRUTH = normalise(-8.0 * np.sum((GRID.centres - [0.3, 0.0]) ** 2, axis=1), GRID)
WIDE = np.zeros_like(TRUTH)  # as much mass at the border as anywhere


def test_panels_are_the_densities_of_model_and_chains(tmp_path, figures):
    ends = np.random.default_rng(0).normal([0.3, 0.0], 0.25, (500, 2))
    chains = smooth_histogram(ends, GRID, 0.2)
    far = 0.5 * np.abs(np.exp(TRUTH) - chains).sum() * GRID.width**2
    for name, log_density in (("good", TRUTH + 3.0), ("wide", WIDE)):
        arrays = {"log_density": log_density, "truth": TRUTH, "ends": ends}
        density_plots.draw(arrays, far, GRID, 0.2, tmp_path / f"{name}.png")
    squares = np.array(figures["good.png"].axes).reshape(2, 3)
    titles = [" ".join(axes.get_title().split()) for axes in squares[0]]
    assert titles == ["data", "model: TV 0.00", f"chains: TV {far:.2f}"]
    assert 0.05 < far < 0.5
    assert [axes.get_ylabel() for axes in squares[:, 0]] == ["density", "log density"]
    wide = np.array(figures["wide.png"].axes).reshape(2, 3)
    assert wide[0, 1].get_title().split() == ["model:", "not", "normalisable"]
    assert [axes.texts[0].get_text() for axes in wide[:, 1]] == ["mass at\nthe border"] * 2
    log_chains = np.maximum(np.log(np.maximum(chains, 1e-99)), density_plots.FLOOR)
    log_truth = np.maximum(TRUTH, density_plots.FLOOR)
    expected = [[np.exp(TRUTH), np.exp(TRUTH), chains], [log_truth, log_truth, log_chains]]
    peak = TRUTH.max()
    limits = (0.0, pytest.approx(math.exp(peak))), (density_plots.FLOOR, pytest.approx(peak))
    for line, values, ends_of in zip(squares, expected, limits, strict=True):
        for axes, one in zip(line, values, strict=True):
            np.testing.assert_allclose(axes.images[0].get_array(), one.T, atol=1e-6)
            assert axes.images[0].get_clim() == ends_of


WAYS = np.random.default_rng(1).normal(0.0, 1.0, (3, 60, 2))


def test_draws_are_those_after_the_burn_in(tmp_path, figures):
    path = tmp_path / "scatter.png"
    numbers = {"sgld": {"rhat_classic": 1.2345}}
    arrays = {"log_density": TRUTH, "tuned.sgld": WAYS}
    comparison.draw("tuned", numbers, arrays, 20, 2.0, path)
    (axes,) = figures["scatter.png"].axes
    assert axes.get_title() == f"{comparison.title('sgld')}\nR-hat 1.23"
    drawn = np.stack([line.get_xydata() for line in axes.lines])
    np.testing.assert_array_equal(drawn, WAYS[:, 20:])
