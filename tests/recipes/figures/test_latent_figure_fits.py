"""The table of parabolas: their coefficients, and whether points left out are foretold."""

import numpy as np
import pytest
from latent_study_folder import LOST, make

from experiments.figures.latent_data import Points, gather
from experiments.figures.latent_fits import HEADS, fit, fits, left_out_error


def made_of(x, y):
    x, y = np.asarray(x, float), np.asarray(y, float)
    return Points([], x, y, np.zeros_like(x), np.zeros_like(y))


RNG = np.random.default_rng(0)
LEFT_OUT = ("left out: constant", "left out: line", "left out: parabola")  # by degree
FREEDOM = "residual degrees of freedom"
NOISY = made_of(np.linspace(0, 1, 7), RNG.normal(size=7))


def test_a_fit_is_numpys_least_squares():
    found = fit(NOISY)
    # Least squares in 7 points of a well-scaled range, by another factorisation.
    expected = np.polyfit(NOISY.x, NOISY.y, 2)
    np.testing.assert_allclose([found[name] for name in "abc"], expected, rtol=1e-10)
    residual = NOISY.y - np.polyval(expected, NOISY.x)
    np.testing.assert_allclose(found["R²"], 1 - residual.var() / NOISY.y.var(), rtol=1e-10)
    assert (found["points"], found[FREEDOM]) == (7, 4)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_points_left_out_are_foretold_by_the_others(degree):
    """The hat matrix H tells it: the error without point i is its residual over 1 - H_ii."""
    design = np.vander(NOISY.x, degree + 1)
    hat = design @ np.linalg.pinv(design)
    expected = np.mean(((NOISY.y - hat @ NOISY.y) / (1 - np.diag(hat))) ** 2)
    np.testing.assert_allclose(left_out_error(NOISY, degree), expected, rtol=1e-10)
    assert fit(NOISY)[LEFT_OUT[degree]] == left_out_error(NOISY, degree)


def test_the_curve_that_the_points_lie_on_foretells_them():
    x = np.array([0.01, 0.02, 0.03, 0.05, 0.08])
    on_parabola = fit(made_of(x, 3 * (x - 0.04) ** 2 + 1))
    np.testing.assert_allclose(
        [on_parabola[name] for name in "abc"], (3, -0.24, 1 + 3 * 0.04**2), rtol=1e-8
    )
    assert on_parabola["R²"] == pytest.approx(1)
    # Roundings of numbers near 1, squared.
    assert on_parabola[LEFT_OUT[2]] < 1e-25
    assert on_parabola[LEFT_OUT[1]] > 1e-7
    on_line = fit(made_of(x, 2 * x + 1))
    assert on_line[LEFT_OUT[1]] < 1e-25
    assert on_line[LEFT_OUT[0]] > 1e-4
    assert fit(made_of(x, [1, -1, 1, -1, 1]))["R²"] < 1


def test_through_three_points_nothing_is_left_to_judge_by():
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0, 1.0])
    found = fit(made_of(x, y))
    assert (found[FREEDOM], found["R²"], found[LEFT_OUT[2]]) == (0, None, None)
    # Lines through two points: at 0 it says 5, at 1 it says 0.5, at 2 it says 6.
    assert found[LEFT_OUT[1]] == pytest.approx((5**2 + 2.5**2 + 5**2) / 3)
    # Means of two: 2, 0.5 and 1.5.
    assert found[LEFT_OUT[0]] == pytest.approx((2**2 + 2.5**2 + 0.5**2) / 3)
    assert fit(made_of(x[:2], y[:2])) is None
    assert left_out_error(made_of([1, 1, 2, 3], [0, 1, 2, 3]), 2) is None


def test_the_table_holds_the_fit_of_the_rows_means(tmp_path):
    measured = make("", tmp_path)
    three = ("tempered p=3.0", "tempered p=6.0", LOST)
    x = [np.mean(measured[one]["gradient_variance"][: 2 if one == LOST else None]) for one in three]
    sized = [measured[one]["generation"]["fresh"]["at_sizes"]["fid"]["infinity"] for one in three]
    y = [np.mean(y[: 2 if one == LOST else None]) for one, y in zip(three, sized, strict=True)]
    entries = entries_of(fits(gather(tmp_path), "tempered"), "p > 1")
    assert (entries["points"], entries["residual degrees of freedom"]) == ("3", "0")
    # Printed to four digits.
    shown = [float(entries[name]) for name in "abc"]
    np.testing.assert_allclose(shown, np.polyfit(x, y, 2), rtol=1e-3)
    assert entries["R²"] == entries["left out: parabola"] == "no residual"
    errors = [float(entries[f"left out: {curve}"]) for curve in ("line", "constant")]
    expected = [left_out_error(made_of(x, y), degree) for degree in (1, 0)]
    np.testing.assert_allclose(errors, expected, rtol=1e-3)


def entries_of(lines, regime):
    """Heading to entry of a regime's fit of FID to the variance over batches."""
    (line,) = (line for line in lines if f"| {regime} | fid | gradient_variance |" in line)
    return dict(zip(HEADS, line.strip("| ").split(" | "), strict=True))
