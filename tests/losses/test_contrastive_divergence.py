"""Contrastive divergence by hand, and as the gradient of a likelihood that is known."""

import jax
import jax.numpy as jnp
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


def test_through_a_network_it_is_the_gradient_of_the_likelihood():
    """E = precision x^2 / 2: d/d precision of the mean -log p is mean(x^2)/2 - 1/(2 precision).

    Samples with the model's exact second moment, 1/precision, stand for the sampler. They are
    constants, and their energies still carry the second term.
    """
    precision, data = 2.0, jnp.array([0.5, -1.5, 2.0])
    samples = jnp.array([1.0, -1.0]) / jnp.sqrt(precision)

    @jax.jit
    def loss(precision):
        def energy(x):
            return 0.5 * precision * x**2

        return contrastive_divergence_loss(energy(data), energy(samples))[0]

    want = 0.5 * np.mean(np.square(data)) - 0.5 / precision
    np.testing.assert_allclose(jax.grad(loss)(precision), want, rtol=16 * EPS)
