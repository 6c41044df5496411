"""Denoising score matching by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.losses import denoising_score_matching_loss

SCORE, NOISE = jnp.array([[1.0, -2.0], [0.5, 4.0]]), jnp.array([[-0.5, 1.0], [2.0, 0.0]])


def test_value_and_gradient():
    loss_fn = jax.value_and_grad(denoising_score_matching_loss, has_aux=True)
    (loss, metrics), gradient = loss_fn(SCORE, NOISE, noise_scale=jnp.array([0.5, 1.0]))
    # Half of the first score and its noise are 0; the second and its noise are [2.5, 4].
    np.testing.assert_allclose(loss, (2.5**2 + 4.0**2) / 4, rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0.0, 0.0], [1.25, 2.0]], rtol=1e-6)
    np.testing.assert_allclose(metrics["score_norm"], np.sqrt(17.5 / 4), rtol=1e-6)
