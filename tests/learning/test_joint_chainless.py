"""A joint model by an objective without chains: cross-entropy and score matching, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.data import ImageData
from ebmjax.learning import Carry, JointNetwork, Objective, make_gradient_fn
from ebmjax.networks import Network

X = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)), jnp.float32)
BATCH = ImageData(X, jnp.array([0, 1, 0, 1, 1, 0], jnp.int32))


def network():
    def apply(params, state, x, *, use="running", batch_axis=None):
        del use, batch_axis
        return x @ params, state

    return Network(lambda key, x: (jnp.zeros((3, 2)), {}), apply)


def mean_energy(key, model, batch, negatives, numbers):
    """Depends on the key and on the energy at shifted data."""
    assert negatives is None
    shift = jax.random.normal(key, (1, batch.x.shape[1]))
    return -jnp.mean(model(batch.x + shift)), {"shift": shift[0, 0], "step": numbers["step"]}


def gradient_fn(**options):
    return make_gradient_fn(
        JointNetwork(network()),
        Objective(loss=mean_energy, **options),
        classified_view=lambda key, x: x,
        view=lambda key, x: 2.0 * x,
    )


@pytest.mark.slow
def test_the_gradient_is_that_of_both_terms():
    params, carry = jnp.full((3, 2), 0.3).at[0, 0].set(-1.0), Carry(smoothing=jnp.float32(2.0))
    options = {"classification_weight": 0.5, "generative_weight": 3.0}
    key = jax.random.key(1)
    gradient, after, metrics = gradient_fn(**options)(key, params, carry, (BATCH, BATCH))

    def loss(params):
        logits = X @ params
        cross_entropy = -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(6), BATCH.labels])
        moved = 2.0 * X + jax.random.normal(jax.random.split(key, 5)[4], (1, 3))
        generative = -jnp.mean(jax.nn.logsumexp(moved @ params, axis=1)) / 2.0
        return 0.5 * cross_entropy + 3.0 * generative

    value, slope = jax.jit(jax.value_and_grad(loss))(params)
    np.testing.assert_allclose(metrics["loss"], value, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-6)
    assert after.buffer == ()
    assert {"cross_entropy", "shift", "smoothing"} <= metrics.keys()
