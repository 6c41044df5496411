"""Under ``jax_numpy_dtype_promotion=strict``, which a user may have set, in float32."""

import jax
import jax.numpy as jnp
import pytest

from ebmjax import data, metrics, samplers

KEY = jax.random.key(0)
STARTS = jnp.arange(6.0).reshape(3, 2)


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


def log_density(x):
    return -jnp.sum(jnp.square(x))


@pytest.mark.parametrize(
    "name",
    ["gradient_descent", "sgld", "psgld", "mala", "tempered_mala", "svgd", "stochastic_svgd"],
)
def test_samplers_step(name):
    sampler = getattr(samplers, name)(log_density, step_size=0.1)
    if name in ("svgd", "stochastic_svgd"):
        init, step = sampler.init, sampler.step
    else:
        init, step = jax.vmap(sampler.init), samplers.batch_step(sampler.step)
    state, _ = jax.eval_shape(lambda x: step(KEY, init(x)), STARTS)
    assert samplers.position_of(state).dtype == jnp.float32


def test_calibration_and_data():
    probabilities, labels = jnp.full((4, 2), 0.5), jnp.zeros(4, jnp.int32)
    found = (
        jax.eval_shape(metrics.expected_calibration_error, probabilities, labels),
        jax.eval_shape(lambda: data.augment_starts(KEY, jnp.zeros((2, 8, 8, 3)))),
        jax.eval_shape(
            lambda: data.gaussian_mixture_points(KEY, 4, means=data.circle_means(3), scale=0.1)
        ),
    )
    assert {leaf.dtype for leaf in found} == {jnp.dtype(jnp.float32)}
