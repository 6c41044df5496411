"""The pictures of the plane show the numbers they are given."""

import json
import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from ebmjax.recipes.models.plane import beta_plots, samplers_plots
from ebmjax.recipes.models.plane.grid import Grid, normalised, smoothed_histogram
from experiments.configs import toy_beta, toy_samplers
from experiments.figures import plane_objectives

GRID = Grid(2.0, 40)
TRUTH = normalised(-8.0 * np.sum((GRID.centres - [0.3, 0.0]) ** 2, axis=1), GRID)
WIDE = np.zeros_like(TRUTH)  # as much mass at the border as anywhere


def test_panels_are_the_densities_of_model_and_chains(tmp_path, figures):
    config = toy_beta.get_config("smoke")
    config.loss.betas = (0.25, 0.5)
    config.eval.update(half_width=2.0, grid_points=40, bandwidth=0.2)
    samples = np.random.default_rng(0).normal([0.3, 0.0], 0.25, (2, 500, 2))
    arrays = {"log_densities": np.stack([TRUTH + 3.0, WIDE]), "samples": samples}
    beta_plots.panels(tmp_path / "panels.png", arrays, TRUTH, config)
    squares = np.array(figures["panels.png"].axes).reshape(4, 3)
    chains = smoothed_histogram(samples[0], GRID, 0.2)
    far = 0.5 * np.abs(np.exp(TRUTH) - chains).sum() * GRID.width**2
    titles = [" ".join(axes.get_title().split()) for axes in squares[[0, 2]].ravel()]
    assert titles[:3] == ["data", "beta 0.25: TV 0.00", "beta 0.5: not normalisable"]
    assert titles[4] == f"chains: TV {far:.2f}"
    assert 0.05 < far < 0.5
    assert [axes.get_visible() for axes in squares[:, 0]] == [True, True, False, False]
    assert [axes.get_ylabel() for axes in squares[:2, 0]] == ["density", "log density"]
    said = [axes.texts[0].get_text() for axes in squares[:2, 2]]
    assert said == ["mass at\nthe border"] * 2
    shown = [axes.images[0] for axes in squares[:, 1]]
    log_chains = np.maximum(np.log(np.maximum(chains, 1e-99)), beta_plots.FLOOR)
    expected = [np.exp(TRUTH), np.maximum(TRUTH, beta_plots.FLOOR), chains, log_chains]
    for image, values in zip(shown, expected, strict=True):
        np.testing.assert_allclose(image.get_array(), values.T, atol=1e-6)
    peak = TRUTH.max()
    assert shown[0].get_clim() == shown[2].get_clim() == (0.0, pytest.approx(math.exp(peak)))
    assert shown[1].get_clim() == shown[3].get_clim() == (beta_plots.FLOOR, pytest.approx(peak))


def test_training_has_a_line_a_beta(tmp_path, figures):
    rows = [
        {"step": step, "density_kl": [0.1 * step, 0.2 * step], "sample_tv": [0.5, None]}
        for step in (10, 20)
    ]
    beta_plots.training(tmp_path / "training.png", rows, (0.0, 0.5))
    kl, tv = figures["training.png"].axes
    assert [" ".join(axes.get_ylabel().split()) for axes in (kl, tv)] == [
        "KL(data || model), nats",
        "total variation, chains",
    ]
    assert (kl.get_yscale(), tv.get_yscale()) == ("log", "linear")
    assert [line.get_label() for line in kl.lines] == ["beta 0", "beta 0.5"]
    np.testing.assert_allclose(kl.lines[1].get_xydata(), [[10, 2.0], [20, 4.0]])
    assert figures["training.png"].legends


def test_a_study_has_means_and_spreads_by_beta(tmp_path, figures):
    seeds = {"gmm": (0.5, 0.6, None), "gmm,_restricted,_no_positive": (0.25,)}
    for row, numbers in seeds.items():
        for seed, number in enumerate(numbers):
            folder = tmp_path / row / f"seed{seed}"
            folder.mkdir(parents=True)
            by_beta = {
                str(beta): {"beta": beta, "density_tv": number, "sample_tv": 0.1}
                for beta in (0.5, 0.0)
            }
            (folder / "evaluation.json").write_text(json.dumps({"by_beta": by_beta}))
    plane_objectives.divergences(tmp_path)
    grid = np.array(figures["divergences.png"].axes).reshape(2, 2)
    assert [axes.get_title() for axes in grid[0]] == ["gmm", "gmm restricted"]
    assert [axes.get_xlabel() for axes in grid.ravel()] == ["beta"] * 4
    (bars,), (alone,) = grid[0, 0].containers, grid[0, 1].containers
    assert (bars.get_label(), alone.get_label()) == ("default", "no positive")
    np.testing.assert_allclose(bars.lines[0].get_xydata(), [[0.0, 0.55], [0.5, 0.55]])
    spread = np.std([0.5, 0.6], ddof=1)
    for segment in bars.lines[2][0].get_segments():
        np.testing.assert_allclose(segment[:, 1], [0.55 - spread, 0.55 + spread])
    np.testing.assert_allclose(alone.lines[0].get_ydata(), [0.25, 0.25])
    np.testing.assert_allclose(alone.lines[2][0].get_segments()[0][:, 1], [0.25, 0.25])
    np.testing.assert_allclose(grid[1, 0].containers[0].lines[0].get_ydata(), [0.1, 0.1])


def samplers_config(**fields):
    config = toy_samplers.get_config("smoke")
    config.eval.update({"half_width": 2.0, "num_chain_steps": 60, "burn_in": 20} | fields)
    return config


WAYS = np.random.default_rng(1).normal(0.0, 1.0, (3, 60, 2))
STARTS = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.5]])


def test_the_energy_is_low_where_the_density_is_high():
    axes = Figure().subplots()
    samplers_plots.energy_map(axes, TRUTH, 2.0)
    image = axes.images[0]
    np.testing.assert_allclose(image.get_array(), (TRUTH.max() - TRUTH).T)
    assert image.origin == "lower"
    assert tuple(image.get_extent()) == (-2, 2, -2, 2)
    assert (axes.get_xlim(), axes.get_ylim()) == ((-2, 2), (-2, 2))


def test_draws_are_those_after_the_burn_in(tmp_path, figures):
    path = tmp_path / "scatter.png"
    numbers = {"sgld": {"rhat_classic": 1.2345}}
    samplers_plots.scatter(path, {"sgld": WAYS}, TRUTH, numbers, samplers_config())
    (axes,) = figures["scatter.png"].axes
    assert axes.get_title() == f"{samplers_plots.title('sgld')}\nR-hat 1.23"
    drawn = np.stack([line.get_xydata() for line in axes.lines])
    np.testing.assert_array_equal(drawn, WAYS[:, 20:])


def test_many_draws_are_thinned_out(tmp_path, figures):
    many = np.random.default_rng(2).normal(size=(4, 2020, 2))
    numbers = {"sgld": {"rhat_classic": 1.0}}
    samplers_plots.scatter(tmp_path / "a.png", {"sgld": many}, TRUTH, numbers, samplers_config())
    lines = figures["a.png"].axes[0].lines
    np.testing.assert_array_equal(lines[3].get_xydata(), many[3, 20::4])  # 8,000 draws, 2,000 shown


def test_traces_are_both_coordinates_by_step(tmp_path, figures):
    samplers_plots.traces(tmp_path / "traces.png", {"sgld": WAYS}, samplers_config())
    first, second = figures["traces.png"].axes
    assert first.get_title() == samplers_plots.title("sgld")
    for axes, coordinate in ((first, 0), (second, 1)):
        *chains, burn_in = axes.lines
        for line, way in zip(chains, WAYS, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 61))
            np.testing.assert_array_equal(line.get_ydata(), way[:, coordinate])
        assert set(burn_in.get_xdata()) == {20}
        assert axes.get_ylim() == (-2, 2)


def test_stills_show_the_last_tenth_of_the_way(tmp_path, figures):
    config = samplers_config()
    samplers_plots.stills(tmp_path / "stills.png", {"sgld": WAYS}, STARTS, TRUTH, config)
    panels = figures["stills.png"].axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["step 0", "step 10", "step 18", "step 33", "step 60"]
    begin, *_, last = panels
    np.testing.assert_array_equal(begin.lines[3].get_xydata(), STARTS[1:2])
    way, dot = last.lines[2:4]
    np.testing.assert_array_equal(way.get_xydata(), WAYS[1, 53:])  # steps 54 to 60
    np.testing.assert_array_equal(dot.get_xydata(), np.clip(WAYS[1, -1:], -2, 2))


def test_a_film_begins_at_the_starts_and_has_its_frames(tmp_path):
    config = samplers_config(num_frames=3)
    path = tmp_path / "film.gif"
    samplers_plots.animation(path, {"sgld": WAYS}, STARTS, TRUTH, config)
    with Image.open(path) as film:
        assert film.n_frames == 4  # step 0, and steps 1, 8 and 60
        assert film.info["loop"] == 0
        frames = []
        for number in range(film.n_frames):
            film.seek(number)
            frames.append(np.asarray(film.convert("RGB"), int))
    assert all(np.abs(frames[0] - other).max() > 50 for other in frames[1:])
    samplers_plots.animation(
        tmp_path / "none.gif", {}, STARTS, TRUTH, samplers_config(num_frames=0)
    )
    assert not (tmp_path / "none.gif").exists()


def test_an_evaluation_has_four_figures_a_setting(tmp_path, figures):
    config = samplers_config(num_frames=2, samplers=("sgld",))
    (tmp_path / "plots").mkdir()
    ways = {"thesis": WAYS, "tuned": WAYS[::-1]}
    arrays = {f"{setting}.sgld": way for setting, way in ways.items()}
    np.savez(tmp_path / "evaluation.npz", log_density=TRUTH, starts=STARTS, **arrays)
    report = {setting: {"sgld": {"rhat_classic": 1.0}} for setting in ways}
    samplers_plots.evaluation(tmp_path, config, report)
    for setting, way in ways.items():
        drawn = [line.get_xydata() for line in figures[f"eval_scatter_{setting}.png"].axes[0].lines]
        np.testing.assert_array_equal(drawn, way[:, 20:])
        for name in ("traces", "steps"):
            assert figures[f"eval_{name}_{setting}.png"].axes
        assert (tmp_path / "plots" / f"eval_chains_{setting}.gif").exists()


def test_moments_are_spaced_evenly_in_logarithm():
    assert samplers_plots.moments(1, 1000, 4) == [1, 10, 100, 1000]
    assert samplers_plots.moments(1, 3, 9) == [1, 2, 3]


def test_twenty_chains_have_colours_of_their_own():
    assert len({samplers_plots.shade(chain) for chain in range(20)}) == 20
