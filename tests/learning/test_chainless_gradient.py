"""The gradient of an objective without chains: denoising score matching, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.data import ImageData
from ebmjax.learning import Carry, EnergyNetwork, Objective, make_gradient_fn
from ebmjax.recipes.parts.objectives import denoising

IMAGES = np.arange(24, dtype=np.uint8).reshape(6, 2, 2, 1)
BATCH = ImageData(IMAGES, np.array([0, 1, 2, 0, 1, 2], np.int32))


def energy_of(params):
    """A curvature for each class, so that a wrong label shows."""
    curvatures = params * jnp.array([1.0, 2.0, 4.0])
    return lambda x, labels: 0.5 * curvatures[labels] * jnp.sum(jnp.square(x), axis=(-3, -2, -1))


def view(key, images):
    return images / 8.0 + jax.random.uniform(key, images.shape)


def test_the_gradient_is_that_of_the_loss_at_the_noisy_images():
    def loss(key, model, batch, negatives, numbers):
        return denoising(key, model, batch, noise_scale=0.5)

    gradient_fn = make_gradient_fn(EnergyNetwork(energy_of), Objective(loss=loss), view=view)
    key, carry = jax.random.key(3), Carry(step=jnp.int32(4))
    gradient, carry, metrics = gradient_fn(key, jnp.float32(0.7), carry, BATCH)

    _, view_key, _, _, noise_key = jax.random.split(key, 5)
    x, noise = view(view_key, IMAGES), jax.random.normal(noise_key, IMAGES.shape)
    slopes = np.array([1.0, 2.0, 4.0])[BATCH.labels].reshape(-1, 1, 1, 1)
    noisy = np.asarray(x + 0.5 * noise, np.float64)
    error = -0.5 * 0.7 * slopes * noisy + noise
    np.testing.assert_allclose(metrics["loss"], np.mean(error**2), rtol=1e-5)
    np.testing.assert_allclose(gradient, np.mean(2 * error * -0.5 * slopes * noisy), rtol=1e-5)
    assert carry.step == 5
    assert carry.buffer == ()
