"""Contrastive divergence by hand."""

import jax
import numpy as np
import pytest

from ebmjax.losses import contrastive_divergence_loss

EPS = np.finfo(np.float32).eps
RNG = np.random.default_rng(1)
POSITIVE = RNG.normal(1.0, 2.0, 7).astype(np.float32)
NEGATIVE = RNG.normal(-3.0, 1.0, 4).astype(np.float32)


@jax.jit
def value_and_grads(positive, negative, energy_l2):
    return jax.value_and_grad(contrastive_divergence_loss, argnums=(0, 1), has_aux=True)(
        positive, negative, energy_l2=energy_l2
    )


@pytest.mark.parametrize("energy_l2", [0.0, 0.3])
def test_value_gradient_and_metrics(energy_l2):
    (loss, metrics), (to_positive, to_negative) = value_and_grads(POSITIVE, NEGATIVE, energy_l2)
    positive, negative = POSITIVE.astype(np.float64), NEGATIVE.astype(np.float64)
    penalty = energy_l2 * (np.mean(positive**2) + np.mean(negative**2))
    atol = 8 * EPS * max(np.max(positive**2), np.max(negative**2))
    np.testing.assert_allclose(loss, positive.mean() - negative.mean() + penalty, rtol=0, atol=atol)
    # Eps of the larger of the two terms, which may cancel.
    want_positive, want_negative = 1 + 2 * energy_l2 * positive, -1 + 2 * energy_l2 * negative
    size = 1 + 2 * energy_l2 * np.max(np.abs(np.concatenate([positive, negative])))
    np.testing.assert_allclose(to_positive, want_positive / 7, rtol=0, atol=4 * EPS * size / 7)
    np.testing.assert_allclose(to_negative, want_negative / 4, rtol=0, atol=4 * EPS * size / 4)
    want = {
        "positive_energy": positive.mean(),
        "negative_energy": negative.mean(),
        "energy_gap": negative.mean() - positive.mean(),
        "energy_l2": penalty,
    }
    assert set(metrics) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(metrics[name], value, rtol=0, atol=atol, err_msg=name)
