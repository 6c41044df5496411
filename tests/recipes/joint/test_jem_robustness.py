"""The refinement of attacked images, by a linear model's chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear_model import DENSITIES_OF, EPS, MODEL, WEIGHTS, chain_plan
from scipy.special import softmax

from ebmjax.recipes.core.fields import ConfigError
from ebmjax.recipes.joint.robustness import refinement


def test_refinement_moves_the_images():
    x = jnp.array([0.3, -0.2, 0.7], jnp.float32).reshape(1, 3, 1, 1)
    position, step = np.float64(x).ravel(), 0.1 * 0.25 / 0.5
    for _ in range(2):
        position = position + step * WEIGHTS @ softmax(position @ WEIGHTS)
    refined = refinement(chain_plan(), DENSITIES_OF, 2)(MODEL, jax.random.key(0), x)
    np.testing.assert_allclose(refined.ravel(), position, rtol=0, atol=60 * EPS)


@pytest.mark.parametrize("plan", [None, chain_plan(is_interacting=True)])
def test_refinement_needs_independent_chains(plan):
    with pytest.raises(ConfigError, match="refine_steps=2 needs"):
        refinement(plan, DENSITIES_OF, 2)
