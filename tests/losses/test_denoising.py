"""Denoising score matching by hand, and its minimum on Gaussian data, where it is known."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.losses import denoising_score_matching_loss

SCORE, NOISE = jnp.array([[1.0, -2.0], [0.5, 4.0]]), jnp.array([[-0.5, 1.0], [2.0, 0.0]])


def test_value_and_gradient():
    loss_fn = jax.value_and_grad(denoising_score_matching_loss, has_aux=True)
    (loss, metrics), gradient = loss_fn(SCORE, NOISE, noise_scale=0.5)
    # 0.5 score + noise = [[0, 0], [2.25, 2]]
    np.testing.assert_allclose(loss, (2.25**2 + 2.0**2) / 4, rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0.0, 0.0], [0.5625, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(metrics["score_norm"], 0.5 * np.sqrt(21.25 / 4), rtol=1e-6)


def test_each_level_recovers_the_data_under_its_noise():
    """Quadratic energies of data N(m, S): precision (S + noise^2 I)^-1 and mean m at every level.

    The loss is quadratic in (precision, precision times mean), so one Newton step from 0 is its
    minimum. It sees second moments alone, which points at +-sqrt(2) standard deviations have.
    """
    noise_scales, mean = np.array([0.1, 1.0, 7.0]), np.array([1.0, -2.0])
    covariance = np.array([[0.3, 0.1], [0.1, 0.2]])
    root = np.linalg.cholesky(covariance)
    corners = np.sqrt(2) * np.concatenate([np.eye(2), -np.eye(2)])
    data = np.repeat(mean + corners @ root.T, 4, axis=0)
    noise = np.tile(corners, (4, 1))
    levels = np.repeat(np.arange(3), 16)
    noise, noise_scale = np.tile(noise, (3, 1)), noise_scales[levels]
    noisy = np.tile(data, (3, 1)) + noise_scale[:, None] * noise

    with jax.enable_x64(True):

        def loss(flat):
            precisions, pulls = flat[:12].reshape(3, 2, 2), flat[12:].reshape(3, 2)
            score = pulls[levels] - jnp.einsum("nij,nj->ni", precisions[levels], noisy)
            return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)[0]

        start = jnp.zeros(18)
        best = -np.linalg.solve(jax.jit(jax.hessian(loss))(start), jax.jit(jax.grad(loss))(start))
    for level, scale in enumerate(noise_scales):
        precision = best[:12].reshape(3, 2, 2)[level]
        expected = np.linalg.inv(covariance + scale**2 * np.eye(2))
        np.testing.assert_allclose(precision, expected, rtol=1e-6)
        found = np.linalg.solve(precision, best[12:].reshape(3, 2)[level])
        np.testing.assert_allclose(found, mean, rtol=1e-6)
