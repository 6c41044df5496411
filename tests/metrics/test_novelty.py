"""The threshold of novelty: its false-alarm rate and both intervals."""

import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import novelty_threshold

NUM_SEEDS = 2000


@pytest.mark.slow
@pytest.mark.parametrize(("num", "rate"), [(60, 0.1), (25, 0.05)])
def test_rates_and_intervals_over_many_samples(num, rate):
    rng = np.random.default_rng(0)
    law = stats.expon()
    found = [
        novelty_threshold(law.rvs(num, random_state=rng), rate, confidence=0.9)
        for _ in range(NUM_SEEDS)
    ]
    rates = law.cdf([one.threshold for one in found])
    assert found[0].rate <= rate
    assert rates.mean() == pytest.approx(found[0].rate, abs=5 * rates.std() / NUM_SEEDS**0.5)
    covered = np.mean(
        [one.rate_low < r < one.rate_high for one, r in zip(found, rates, strict=True)]
    )
    error = np.sqrt(0.9 * 0.1 / NUM_SEEDS)
    assert covered == pytest.approx(0.9, abs=5 * error)
    quantile = law.ppf(rate)
    covered = np.mean([one.low <= quantile <= one.high for one in found])
    # Order statistics come in steps: the interval covers at least as often as it says.
    assert 0.9 - 5 * error < covered


def test_the_least_number_of_scores():
    assert novelty_threshold(np.arange(19.0), 0.05).threshold == 0.0
    assert novelty_threshold(np.arange(19.0), 0.05).low == -np.inf
    with pytest.raises(ValueError, match="needs at least 19 scores, got 18"):
        novelty_threshold(np.arange(18.0), 0.05)
    assert novelty_threshold(np.arange(29.0), 0.1).threshold == 2.0  # the third


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rate": 0.0}, "rate must lie between 0 and 1"),
        ({"rate": 1.5}, "rate must lie between 0 and 1"),
        ({"confidence": 1.0}, "confidence must lie"),
        ({"scores": np.zeros((30, 1))}, "shape"),
        ({"scores": np.full(30, np.nan)}, "NaN"),
    ],
)
def test_bad_input(changes, text):
    given = {"scores": np.arange(30.0), "rate": 0.1} | changes
    with pytest.raises(ValueError, match=text):
        novelty_threshold(given.pop("scores"), **given)
