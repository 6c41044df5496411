"""The figures of thermodynamic integration show the numbers of their rows."""

import numpy as np
import pytest
from latent_study_folder import LOST, labels, make
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from experiments.figures import latent_runs as runs
from experiments.figures import latent_sweeps as sweeps
from experiments.figures.latent_data import (
    at_infinity,
    gather,
    points,
    quadratic,
    regimes,
    series,
    variants,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return make("", folder), gather(folder)


@pytest.fixture
def panels(study, tmp_path, monkeypatch):
    """Returns a function: the visible axes of a figure of the study, which is not rendered."""
    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: kept.append(figure))

    def drawn(draw, *arguments, **options):
        draw(study[1], *arguments, tmp_path / "none.png", **options)
        return [axes for axes in kept[-1].axes if axes.get_visible()]

    return drawn


def words(text):
    return " ".join(text.split())


def test_schedules_are_the_powers_by_their_index(study, panels):
    measured, rows = study
    (axes,) = panels(runs.schedules, "tempered")
    swept = series(rows, "tempered")
    assert [line.get_label() for line in axes.lines] == labels(swept)
    powers = measured["tempered p=0.1"]["powers"]
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), list(enumerate(powers)))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("index i", "power t")
    assert axes.figure.legends


def test_trapezia_stand_below_e_t_between_neighbouring_powers(study, panels):
    first, second = panels(runs.trapezia, "tempered")
    assert (first.get_title(), second.get_title()) == ("p = 0.3", "p = 3")
    row = series(study[1], "tempered")[1]
    powers, values = row.mean_log_likelihoods()
    np.testing.assert_allclose(first.lines[0].get_xydata(), np.stack([powers, values], 1))
    areas = [one for one in first.collections if isinstance(one, PolyCollection)]
    assert len(areas) == len(powers) - 1
    for i, area in enumerate(areas):
        corners = area.get_paths()[0].vertices
        assert corners[:, 0].min() == pytest.approx(powers[i])
        assert corners[:, 0].max() == pytest.approx(powers[i + 1])
        assert corners[:, 1].min() == pytest.approx(values.min())
        assert corners[:, 1].max() == pytest.approx(values[i : i + 2].max())
    assert words(first.figure.get_suptitle()).startswith("tempered (the prior learns")


def test_losses_are_those_of_every_repeat_and_the_mean_of_the_sound_ones(study, panels):
    drawn = panels(runs.losses, "tempered")
    assert [axes.get_title() for axes in drawn] == labels(series(study[1], "tempered"))
    losses = np.array(study[0][LOST]["losses"], float)
    *repeats, mean = drawn[-1].lines
    np.testing.assert_array_equal(np.stack([line.get_ydata() for line in repeats], 1), losses)
    np.testing.assert_array_equal(mean.get_xdata(), [0, 5, 10, 15])
    np.testing.assert_allclose(mean.get_ydata(), losses[:, :-1].mean(axis=1))
    assert words(drawn[0].get_ylabel()) == "surrogate loss"


def test_samples_come_with_their_scores(study, panels):
    measured, rows = study
    for draw, expected in (
        (runs.sweep_samples, series(rows, "tempered")),
        (runs.variant_samples, [series(rows, "tempered")[4], *variants(rows, "tempered")]),
    ):
        drawn = panels(draw, "tempered")
        titles = [words(axes.get_title()) for axes in drawn]
        assert len(titles) == len(expected)
        for title, row in zip(titles, expected, strict=True):
            assert title.startswith(words(row.label)), draw
        np.testing.assert_array_equal(
            drawn[0].images[0].get_array()[1:9, 1:9, 0],
            expected[0].samples(at_infinity("kid_rbf"))[0][0, ..., 0],
        )
    scores = measured["tempered p=0.1"]["generation"]["fresh"]["at_sizes"]
    kid, fid = (scores[score]["infinity"][0] for score in ("kid_rbf", "fid"))
    first = words(panels(runs.sweep_samples, "tempered")[0].get_title())
    assert first.endswith(f"repeat 0: KID {1000 * kid:.3g}e-3, FID {fid:.3g}")


def test_the_samples_of_the_lowest_distance_come_first(study, panels):
    drawn = panels(runs.samples_by_score)
    rows = sorted(study[1], key=lambda row: runs.find_shown_scores(row)[0])
    assert len(drawn) == len(rows)
    for axes, row in zip(drawn, rows, strict=True):
        assert words(axes.get_title()).startswith(words(f"{row.estimator} {row.label}"))


def test_a_cost_is_a_bar_a_row_from_above(study, panels):
    (axes,) = panels(runs.costs, "train_seconds")
    found = runs.cost_values(study[1], "train_seconds")
    assert [text.get_text() for text in axes.get_yticklabels()] == list(found)
    assert [bar.get_width() for bar in axes.patches] == list(found.values())
    assert axes.yaxis_inverted()
    assert axes.texts[0].get_text() == f"{next(iter(found.values())):.3g}"


def bars_of(container):
    """Places (n, 2), and their spreads along x and along y, of points with error bars."""
    data, _, lines = container.lines
    spreads = [
        [np.ptp(segment[:, axis]) / 2 for segment in line.get_segments()]
        for axis, line in enumerate(lines)
    ]
    return data.get_xydata(), *spreads


def test_a_score_is_drawn_against_every_variance_regime_by_regime(study, panels):
    rows = study[1]
    drawn = np.array(panels(sweeps.against_variance, "tempered", score="fid")).reshape(3, 3)
    found = regimes(rows, "tempered")
    assert [axes.get_title() for axes in drawn[0]] == list(found)
    for line, (variance, label) in zip(drawn, sweeps.VARIANCES.items(), strict=True):
        for axes, mine in zip(line, found.values(), strict=True):
            expected = points(mine, variance, at_infinity("fid"))
            at, x_spread, y_spread = bars_of(axes.containers[0])
            np.testing.assert_allclose(at, np.stack([expected.x, expected.y], 1))
            np.testing.assert_allclose(x_spread, expected.x_spread, rtol=1e-6)
            np.testing.assert_allclose(y_spread, expected.y_spread, rtol=1e-6)
            assert [text.get_text() for text in axes.texts] == labels(mine)
            curve = axes.lines[-1]
            x, y = curve.get_data()
            assert (x[0], x[-1]) == pytest.approx((expected.x.min(), expected.x.max()))
            np.testing.assert_allclose(y, quadratic(expected)(x))
            assert words(axes.get_xlabel()) == words(label)
            assert axes.get_ylabel() == sweeps.SCORES["fid"]
    collated = panels(sweeps.against_variance, "tempered", score="fid", is_collated=True)
    assert [[one.get_label() for one in axes.containers] for axes in collated] == [list(found)] * 3


def test_variants_lie_over_the_sweep_in_the_panel_of_their_exponent(study, panels):
    rows = study[1]
    drawn = np.array(panels(sweeps.overlaid, "tempered", score="fid")).reshape(3, -1)
    low, high = list(regimes(rows, "tempered").items())[1:3]
    changed = variants(rows, "tempered")
    for column, (regime, mine), is_low in ((0, low, True), (1, high, False)):
        axes = drawn[0, column]
        assert axes.get_title() == regime
        own = [row for row in changed if (row.exponent <= 1) == is_low]
        sweep, *others = axes.containers
        np.testing.assert_allclose(bars_of(sweep)[0][:, 0], points_of(mine).x)
        assert [one.get_label() for one in others] == labels(own)
        np.testing.assert_allclose(
            np.concatenate([bars_of(one)[0] for one in others])[:, 1], points_of(own).y
        )
        bases = [row for row in mine if row.exponent in {one.exponent for one in own}]
        (circles,) = (line for line in axes.lines if line.get_markersize() == 16)
        np.testing.assert_allclose(circles.get_xdata(), points_of(bases).x)


def points_of(rows):
    return points(rows, next(iter(sweeps.VARIANCES)), at_infinity("fid"))


def test_numbers_are_drawn_against_the_time_of_training(study, panels):
    rows = study[1]
    kid, evidence = panels(sweeps.against_time)
    estimators = sorted({row.estimator for row in rows})
    for axes, name in ((kid, at_infinity("kid_rbf")), (evidence, "evidence.ais.mean")):
        assert [one.get_label() for one in axes.containers] == estimators
        for container, estimator in zip(axes.containers, estimators, strict=True):
            mine = [row for row in rows if row.estimator == estimator]
            expected = points(mine, "cost.train_seconds", name)
            np.testing.assert_allclose(bars_of(container)[0], np.stack([expected.x, expected.y], 1))
        assert axes.get_xscale() == "log"
