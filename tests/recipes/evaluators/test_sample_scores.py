"""Numbers with their errors, and verdicts on samples that follow from intervals."""

import pytest

from ebmjax.recipes.evaluators.result_tables import advice, fid_text, with_error, with_interval


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


def test_an_interval_stands_behind_its_difference():
    assert with_interval(-14.2, -17.1, -11.3) == "-14.2 (-17.1 to -11.3)"
    assert with_interval(1.0, None, None) == "+1"


def test_a_fid_is_told_beside_all_that_is_known():
    assert fid_text({"loss": 1.0}) == ""
    assert fid_text({"sample_fid": 9.0}) == "FID of samples 9"
    row = {f"{name}_fid": 1.0 for name in ("sample", "start", "gaussian", "test_images")}
    assert fid_text(row) == "FID of samples 1 (starts 1, Gaussian 1, test images 1)"
    nums = {"sample_fid_num_images": 1000, "start_fid_num_images": 1000}
    assert fid_text({**row, **nums, "test_images_fid_num_images": 40}).endswith(
        "starts 1, Gaussian 1, test images 1 of 40 images)"
    )


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


def test_of_few_images_it_says_where_more_are_unless_they_are_worse():
    few = {"sample_fid_num_images": 160}
    (line,) = advice(row_of(2.0, -1.0, 5.0) | few)
    assert line.startswith("By FID of 160 images, the samples cannot be told from")
    assert "--mode=eval" in line
    assert "learning rate" not in line
    assert "half the learning rate" in advice(row_of(3.0, 1.0, 5.0) | few)[0]
    assert not advice(row_of(-2.0, -3.0, -1.0) | few)
