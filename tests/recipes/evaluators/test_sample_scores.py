"""Numbers with their errors, and verdicts on samples that follow from intervals."""

import pytest

from ebmjax.recipes.evaluators.result_tables import advice, with_error


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (39.214, 4.03, "39.2 ± 4.0"),
        (0.01234, 0.00056, "0.01234 ± 0.00056"),
        ([1.0, 3.0], [0.5, 0.7], "2.00 ± 0.60"),
        (39.214, None, "39.21"),
        (None, 1.0, "nan"),
    ],
)
def test_a_number_has_two_digits_of_its_error(value, error, text):
    assert with_error(value, error) == text


def row_of(difference, low, high):
    return {
        "sample_fid": 10.0,
        "start_fid": 8.0,
        "fid_minus_starts": difference,
        "fid_minus_starts_low": low,
        "fid_minus_starts_high": high,
    }


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (row_of(2.0, 1.0, 3.0), "are worse than"),
        (row_of(2.0, -1.0, 5.0), "cannot be told from"),
        (row_of(-2.0, -3.0, -1.0), None),
        (row_of(None, None, None), None),
        ({"loss": 1.0}, None),
    ],
)
def test_the_interval_decides_and_not_the_difference(row, verdict):
    said = advice(row)
    assert len(said) == (verdict is not None)
    assert all(verdict in line and "half the learning rate" in line for line in said)
