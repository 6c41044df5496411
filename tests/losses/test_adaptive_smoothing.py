"""Adaptive smoothing: its closed-form path on a toy, its bounds, and norms it must not trust."""

import jax
import numpy as np
import pytest

from ebmjax.losses import adapt_smoothing

EPS = np.finfo(np.float32).eps
adapt = jax.jit(adapt_smoothing)


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("start", [0.2, 300.0])
def test_converges_geometrically_on_a_toy(rate, start):
    """Norm c / smoothing: the log distance to c / (clf target) shrinks by 1 - rate each step."""
    strength, classification, target = 12.0, 0.5, 3.0
    fixed_point = strength / (classification * target)
    smoothing = start
    for step in range(1, 21):
        smoothing = adapt(
            smoothing, strength / smoothing, classification, target_ratio=target, rate=rate
        )
        want = fixed_point * (start / fixed_point) ** ((1 - rate) ** step)
        # A few eps of error in the log each step, and its size of at most 6.
        np.testing.assert_allclose(smoothing, want, rtol=8 * 6 * EPS * step)
    if rate >= 0.5:  # 2^-20 of a log distance of 4 or less
        np.testing.assert_allclose(smoothing, fixed_point, rtol=1e-5 + 8 * 6 * EPS * 20)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, -np.inf, np.nan])
def test_unusable_norms_change_nothing(bad):
    assert adapt(2.5, bad, 1.0, target_ratio=3.0) == 2.5
    assert adapt(2.5, 1.0, bad, target_ratio=3.0) == 2.5
    assert adapt(2.5, bad, bad) == 2.5
