"""The refinement of attacked images, by a linear model's chains."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear_model import DENSITIES_OF, EPS, MODEL, WEIGHTS, chain_plan
from scipy.special import softmax

from ebmjax import samplers
from ebmjax.learning import ANY_CLASS
from ebmjax.recipes.evaluators.chains import move


def refinement(plan, num_steps):
    def refine(model, key, images):
        labels = jnp.full(len(images), ANY_CLASS)
        return move(key, plan, DENSITIES_OF, model, images, labels, num_steps)

    return refine


def test_refinement_moves_the_images():
    x = jnp.array([0.3, -0.2, 0.7], jnp.float32).reshape(1, 3, 1, 1)
    position, step = np.float64(x).ravel(), 0.1 * 0.25 / 0.5
    for _ in range(2):
        position = position + step * WEIGHTS @ softmax(position @ WEIGHTS)
    refined = refinement(chain_plan(), 2)(MODEL, jax.random.key(0), x)
    np.testing.assert_allclose(refined.ravel(), position, rtol=0, atol=60 * EPS)


def proximal(density):
    """SADA-JEM's chains, whose drift is clipped in a box, and noise on top."""
    made = samplers.clip_drift(samplers.sgld, 0.1)
    return samplers.clamp(made, -1.0, 1.0)(density, step_size=0.5, noise_scale=0.01)


@pytest.mark.parametrize("sampler", [partial(samplers.gradient_descent, step_size=0.3), proximal])
def test_the_full_gradient_is_that_of_the_chain(sampler):
    """Against differences in float64; the box stops one pixel and the clip another."""
    with jax.enable_x64(True):
        refine = refinement(chain_plan(sampler=sampler), 5)
        weights = jnp.array([1.0, -0.7, 0.4])
        images = jnp.array([[0.3, -0.2, 0.7], [0.1, 0.9, -0.9], [-0.99, 0.98, 0.0]])

        @jax.jit
        def value(x):
            refined = refine(MODEL, jax.random.key(0), x.reshape(3, 3, 1, 1))
            return jnp.sum(jnp.sin(refined.reshape(3, 3) @ weights))

        x, step = np.asarray(images, np.float64), 1e-5
        differences = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            shift = np.zeros_like(x)
            shift[place] = step
            differences[place] = (value(x + shift) - value(x - shift)) / (2 * step)
        gradient = np.asarray(jax.jit(jax.grad(value))(x))
        # Third derivatives are below 100: an error of step^2 100 / 6, and rounding of 1e-16 / step.
        np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-8)
    identity = np.cos(np.asarray(images) @ np.asarray(weights))[:, None] * np.asarray(weights)
    assert np.abs(gradient - identity).max() > 0.1, "BPDA's gradient is another"
