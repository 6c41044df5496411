"""The pictures of points show the numbers they are given."""

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from ebmjax.recipes.evaluators.evaluator import Found
from ebmjax.recipes.evaluators.points import comparison_plots, density_plots
from ebmjax.recipes.evaluators.points.comparison import Comparison
from ebmjax.recipes.evaluators.points.grid import Grid, normalise, smooth_histogram

GRID = Grid(2.0, 40)
TRUTH = normalise(-8.0 * np.sum((GRID.centres - [0.3, 0.0]) ** 2, axis=1), GRID)
WIDE = np.zeros_like(TRUTH)  # as much mass at the border as anywhere


def test_panels_are_the_densities_of_model_and_chains(tmp_path, figures):
    ends = np.random.default_rng(0).normal([0.3, 0.0], 0.25, (500, 2))
    chains = smooth_histogram(ends, GRID, 0.2)
    far = 0.5 * np.abs(np.exp(TRUTH) - chains).sum() * GRID.width**2
    for name, log_density in (("good", TRUTH + 3.0), ("wide", WIDE)):
        arrays = {"log_density": log_density, "truth": TRUTH, "ends": ends}
        report = {"sample_tv": far}
        density_plots.panels(tmp_path / f"{name}.png", arrays, report, GRID, 0.2)
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


def test_the_density_is_drawn_at_every_step_that_kept_it(tmp_path, figures):
    for name in ("monitor", "plots"):
        (tmp_path / name).mkdir()
    for step in (0, 20):
        np.savez(tmp_path / "monitor" / f"{step:06d}.npz", log_density=TRUTH + step)
    np.savez(tmp_path / "monitor" / "000010.npz", others=TRUTH)
    density_plots.over_training(tmp_path, 2.0)
    shown = [axes for axes in figures["density.png"].axes if axes.images]
    assert [axes.get_title() for axes in shown] == ["step 0", "step 20"]
    np.testing.assert_allclose(shown[0].images[0].get_array(), (TRUTH.max() - TRUTH).T)


LOOK = Comparison({"half_width": 2.0}, num_steps=60, burn_in=20)
WAYS = np.random.default_rng(1).normal(0.0, 1.0, (3, 60, 2))
STARTS = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.5]])


def test_the_energy_is_low_where_the_density_is_high():
    axes = Figure().subplots()
    density_plots.energy_map(axes, TRUTH, 2.0)
    image = axes.images[0]
    np.testing.assert_allclose(image.get_array(), (TRUTH.max() - TRUTH).T)
    assert image.origin == "lower"
    assert tuple(image.get_extent()) == (-2, 2, -2, 2)
    assert (axes.get_xlim(), axes.get_ylim()) == ((-2, 2), (-2, 2))


def test_draws_are_those_after_the_burn_in(tmp_path, figures):
    path = tmp_path / "scatter.png"
    numbers = {"sgld": {"rhat_classic": 1.2345}}
    comparison_plots.scatter(path, {"sgld": WAYS}, TRUTH, numbers, LOOK)
    (axes,) = figures["scatter.png"].axes
    assert axes.get_title() == f"{comparison_plots.title('sgld')}\nR-hat 1.23"
    drawn = np.stack([line.get_xydata() for line in axes.lines])
    np.testing.assert_array_equal(drawn, WAYS[:, 20:])


def test_many_draws_are_thinned_out(tmp_path, figures):
    many = np.random.default_rng(2).normal(size=(4, 2020, 2))
    numbers = {"sgld": {"rhat_classic": 1.0}}
    comparison_plots.scatter(tmp_path / "a.png", {"sgld": many}, TRUTH, numbers, LOOK)
    lines = figures["a.png"].axes[0].lines
    np.testing.assert_array_equal(lines[3].get_xydata(), many[3, 20::4])  # 8,000 draws, 2,000 shown


def test_traces_are_both_coordinates_by_step(tmp_path, figures):
    comparison_plots.traces(tmp_path / "traces.png", {"sgld": WAYS}, LOOK)
    first, second = figures["traces.png"].axes
    assert first.get_title() == comparison_plots.title("sgld")
    for axes, coordinate in ((first, 0), (second, 1)):
        *chains, burn_in = axes.lines
        for line, way in zip(chains, WAYS, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 61))
            np.testing.assert_array_equal(line.get_ydata(), way[:, coordinate])
        assert set(burn_in.get_xdata()) == {20}
        assert axes.get_ylim() == (-2, 2)


def test_stills_show_the_last_tenth_of_the_way(tmp_path, figures):
    comparison_plots.stills(tmp_path / "stills.png", {"sgld": WAYS}, STARTS, TRUTH, LOOK)
    panels = figures["stills.png"].axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["step 0", "step 10", "step 18", "step 33", "step 60"]
    begin, *_, last = panels
    np.testing.assert_array_equal(begin.lines[3].get_xydata(), STARTS[1:2])
    way, dot = last.lines[2:4]
    np.testing.assert_array_equal(way.get_xydata(), WAYS[1, 53:])  # steps 54 to 60
    np.testing.assert_array_equal(dot.get_xydata(), np.clip(WAYS[1, -1:], -2, 2))


def test_a_film_begins_at_the_starts_and_has_its_frames(tmp_path):
    look = replace(LOOK, num_frames=3)
    path = tmp_path / "film.gif"
    comparison_plots.animation(path, {"sgld": WAYS}, STARTS, TRUTH, look)
    with Image.open(path) as film:
        assert film.n_frames == 4  # step 0, and steps 1, 8 and 60
        assert film.info["loop"] == 0
        frames = []
        for number in range(film.n_frames):
            film.seek(number)
            frames.append(np.asarray(film.convert("RGB"), int))
    assert all(np.abs(frames[0] - other).max() > 50 for other in frames[1:])
    comparison_plots.animation(
        tmp_path / "none.gif", {}, STARTS, TRUTH, replace(LOOK, num_frames=0)
    )
    assert not (tmp_path / "none.gif").exists()


def test_a_comparison_has_four_figures_a_setting(tmp_path, figures):
    (tmp_path / "plots").mkdir()
    ways = {"thesis": WAYS, "tuned": WAYS[::-1]}
    arrays = {f"{setting}.sgld": way for setting, way in ways.items()}
    report = {setting: {"sgld": {"rhat_classic": 1.0}} for setting in ways}
    found = Found(report, arrays={"log_density": TRUTH, "starts": STARTS, **arrays})
    replace(LOOK, num_frames=2).draw(tmp_path, found)
    for setting, way in ways.items():
        drawn = [line.get_xydata() for line in figures[f"eval_scatter_{setting}.png"].axes[0].lines]
        np.testing.assert_array_equal(drawn, way[:, 20:])
        for name in ("traces", "steps"):
            assert figures[f"eval_{name}_{setting}.png"].axes
        assert (tmp_path / "plots" / f"eval_chains_{setting}.gif").exists()


def test_moments_are_spaced_evenly_in_logarithm():
    assert comparison_plots.moments(1, 1000, 4) == [1, 10, 100, 1000]
    assert comparison_plots.moments(1, 3, 9) == [1, 2, 3]


def test_twenty_chains_have_colours_of_their_own():
    assert len({comparison_plots.shade(chain) for chain in range(20)}) == 20
