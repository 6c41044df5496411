"""Networks compute in bfloat16, except for what stays in float32."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from ebmjax.networks import ConvClassifier, ConvGenerator, LatentEnergy, MLPEnergy, WideResNet


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (MLPEnergy(dtype=jnp.bfloat16), (2,)),
        (LatentEnergy(dtype=jnp.bfloat16), (9,)),
        (WideResNet(10, 1, 4, dtype=jnp.bfloat16), (8, 8, 1)),
        (WideResNet(10, 1, 4, "group", dtype=jnp.bfloat16), (8, 8, 1)),
        (ConvGenerator((8,), 1, dtype=jnp.bfloat16), (5,)),
        (ConvClassifier(4, dtype=jnp.bfloat16), (8, 8, 1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bfloat16_computes_inside_and_float32_comes_out(network, shape):
    x = jnp.ones(shape)
    params = jax.eval_shape(network.init, jax.random.key(0), x)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    assert jax.eval_shape(network.apply, params, x).dtype == jnp.float32
    assert jax.eval_shape(network.apply, params, x.astype(jnp.bfloat16)).dtype == jnp.float32
    text = str(jax.make_jaxpr(network.apply)(params, x))
    assert any("bf16" in line and "dot_general" in line for line in text.splitlines())


def test_the_average_over_pixels_stays_float32():
    module = WideResNet(10, 1, 4, dtype=jnp.bfloat16)
    image = jnp.ones((8, 8, 1))
    params = jax.eval_shape(module.init, jax.random.key(0), image)
    before, after = str(jax.make_jaxpr(module.apply)(params, image)).split("reduce_sum")
    assert "bf16" in before
    assert "bf16" not in after.split("] ", 1)[1]


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_normalised_activations_stay_bfloat16(norm):
    network = WideResNet(10, 1, 4, norm, dtype=jnp.bfloat16)
    image = jnp.ones((8, 8, 1))
    variables = jax.eval_shape(network.init, jax.random.key(0), image)

    def normalised(variables, image):
        return network.apply(
            variables,
            image,
            capture_intermediates=lambda module, _: isinstance(module, nn.GroupNorm | nn.BatchNorm),
            mutable=["intermediates"],
        )[1]

    found = jax.tree.leaves(jax.eval_shape(normalised, variables, image))
    assert [leaf.dtype for leaf in found] == [jnp.bfloat16] * 7


def test_images_are_squashed_in_float32():
    """The input of tanh is rounded to bfloat16's 8 bits; the image is not."""
    module = ConvGenerator((8,), 1, dtype=jnp.bfloat16)
    params = jax.eval_shape(module.init, jax.random.key(0), jnp.ones(5))
    (squashing,) = [
        line
        for line in str(jax.make_jaxpr(module.apply)(params, jnp.ones(5))).splitlines()
        if " tanh " in line
    ]
    assert ":f32[" in squashing
