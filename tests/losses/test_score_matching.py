"""Score matching by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import score_matching_loss


def test_value_and_metrics_by_hand():
    score, divergence = jnp.array([[3.0, 4.0], [0.0, 0.0]]), jnp.array([-1.0, -2.0])
    loss, metrics = score_matching_loss(score, divergence)
    assert float(loss) == (12.5 - 1.0 - 2.0) / 2
    assert float(metrics["score_norm"]) == pytest.approx(np.sqrt(12.5))
    assert float(metrics["divergence"]) == -1.5
