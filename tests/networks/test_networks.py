"""Networks against the same function written out with JAX's own operations.

Bodies are compared in float64 (``dtype=jnp.float64`` under x64), where their rounding is
negligible; what is left is the last, float32 product of n terms, off by at most (n + 2) eps
times the product of absolute values.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ebmjax.networks import (
    ConvClassifier,
    ConvEnergy,
    ConvGenerator,
    DenseGenerator,
    LatentEnergy,
    MLPEnergy,
    ResidualEnergy,
    WideResNet,
)

EPS = float(jnp.finfo(jnp.float32).eps)


LOWERINGS = ["matmul", "xla"]


def randomised(params, seed=0):
    """The same shapes with every entry, biases and norms included, away from its start."""
    rng = np.random.default_rng(seed)
    draws = (0.1 * rng.normal(size=leaf.shape) for leaf in jax.tree.leaves(params))
    return jax.tree.map(lambda p: np.asarray(p + next(draws), np.float32), params)


def initial(module, x):
    return jax.jit(module.init)(jax.random.key(0), x)


def in_float64(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), tree)


def leaky(x, slope):
    return jnp.where(x > 0, x, slope * x)


def dense(layer, x):
    """The value, and the bound on the float32 rounding of it."""
    terms = layer["kernel"].shape[0] + 2
    value = x @ layer["kernel"] + layer["bias"][None]
    bound = jnp.abs(x) @ jnp.abs(layer["kernel"]) + jnp.abs(layer["bias"])[None]
    return value, terms * EPS * bound


def count(params):
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(
    ("network", "activation", "dim"),
    [(MLPEnergy, lambda x: x / (1 + jnp.exp(-x)), 2), (LatentEnergy, lambda x: leaky(x, 0.1), 7)],
)
def test_fully_connected_energies_equal_their_definition(network, activation, dim):
    positions = np.random.default_rng(1).normal(size=(6, dim)).astype(np.float32)
    with jax.enable_x64(True):
        module = network(dtype=jnp.float64)
        params = randomised(initial(module, positions))
        layers = in_float64(params["params"])
        x = in_float64(positions)
        for layer in range(len(module.hidden)):
            x = activation(dense(layers[f"Dense_{layer}"], x)[0])
        expected, bound = dense(layers[f"Dense_{len(module.hidden)}"], x)
        energies = jax.jit(module.apply)(params, positions)
        np.testing.assert_array_less(np.abs(energies - expected[:, 0]), bound[:, 0])
        assert energies.dtype == jnp.float32


def test_default_widths_are_the_papers():
    mlp = jax.eval_shape(MLPEnergy().init, jax.random.key(0), jnp.zeros(2))
    assert count(mlp) == 2 * 32 + 32 + 32 * 64 + 64 + 2 * (64 * 64 + 64) + 64 + 1
    latent = jax.eval_shape(LatentEnergy().init, jax.random.key(0), jnp.zeros(80))
    assert count(latent) == 80 * 100 + 100 + 100 * 100 + 100 + 100 + 1


def written_out_generator(layers, z, sides=((4, 4), (8, 8), (16, 16))):
    """Before the tanh; each layer's image is cut to its side."""
    x = z[:, None, None, :]
    for index in range(len(layers)):
        layer = layers[f"TransposedConvolution_{index}"]
        stride, padding = (2, "SAME") if index else (1, "VALID")
        x = leaky(x, 0.2) if index else x
        x = lax.conv_transpose(x, layer["kernel"], (stride, stride), padding)
        height, width = sides[index]
        x = x[:, :height, :width] + layer["bias"][None, None, None, :]
    return x


SIDES = {
    None: ((4, 4), (8, 8), (16, 16)),
    (16, 16): ((4, 4), (8, 8), (16, 16)),
    (25, 18): ((7, 5), (13, 9), (25, 18)),
}


@pytest.mark.parametrize(
    ("lowering", "image_size"), [*itertools.product(LOWERINGS, [None, (25, 18)]), (None, (16, 16))]
)
def test_generator_equals_its_definition(lowering, image_size):
    z = np.random.default_rng(2).normal(size=(3, 5)).astype(np.float32)
    with jax.enable_x64(True):
        module = ConvGenerator(
            (6, 4), 3, lowering=lowering, dtype=jnp.float64, image_size=image_size
        )
        params = randomised(initial(module, z))
        written_out = functools.partial(written_out_generator, sides=SIDES[image_size])
        before = jax.jit(written_out)(in_float64(params["params"]), in_float64(z))
        images = jax.jit(module.apply)(params, z)
        assert images.dtype == jnp.float32
        # Half an eps from the cast, and a few from float32's tanh, whose slope is at most 1.
        bound = 4 * EPS * (1 + jnp.abs(before))
        np.testing.assert_array_less(np.abs(images - jnp.tanh(before)), bound)


def test_dense_generator_equals_its_definition():
    z = np.random.default_rng(2).normal(size=(3, 5)).astype(np.float32)
    module = DenseGenerator((6, 4), (2, 3, 1))
    params = randomised(initial(module, z))
    layers = [params["params"][f"Dense_{i}"] for i in range(3)]
    before = z.astype(np.float64)
    for i, layer in enumerate(layers):
        before = before / (1 + np.exp(-before)) if i else before
        before = before @ np.float64(layer["kernel"]) + np.float64(layer["bias"])
    images = module.apply(params, z)
    np.testing.assert_allclose(images, np.tanh(before).reshape(3, 2, 3, 1), atol=1e-5)
    np.testing.assert_allclose(module.apply(params, z[0]), images[0], atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(25, 25), (28, 28), (33, 48), (1, 3)])
@pytest.mark.parametrize("channels", [1, 3])
def test_generator_makes_any_side(height, width, channels):
    module = ConvGenerator((8, 4), channels, image_size=(height, width))
    made, _ = jax.eval_shape(module.init_with_output, jax.random.key(0), jnp.zeros((2, 16)))
    assert made.shape == (2, height, width, channels)


@pytest.mark.parametrize(
    ("side", "flat"),
    [(8, 4 * 4 * 32), (16, 8 * 8 * 32), (25, 7 * 7 * 32), (32, 8 * 8 * 32), (64, 8 * 8 * 64)],
)
def test_the_small_classifier_halves_an_image_until_it_has_8_pixels_a_side(side, flat):
    params = jax.eval_shape(ConvClassifier(3).init, jax.random.key(0), jnp.zeros((side, side, 1)))[
        "params"
    ]
    assert params["Dense_0"]["kernel"].shape == (flat, 64)
    assert params["Dense_1"]["kernel"].shape == (64, 3)


def test_the_small_energy_is_minus_the_logit_of_a_classifier_of_one_class():
    images = np.random.default_rng(6).uniform(size=(3, 9, 9, 2)).astype(np.float32)
    params = ConvEnergy(hidden=6).init(jax.random.key(0), images)
    (inner,) = params["params"].values()
    logits = ConvClassifier(1, hidden=6).apply({"params": inner}, images)
    np.testing.assert_array_equal(ConvEnergy(hidden=6).apply(params, images), -logits[:, 0])


def test_the_small_classifier_is_swish_of_convolutions_and_dense_layers():
    images = np.random.default_rng(6).uniform(size=(3, 2, 9, 9, 2)).astype(np.float32)
    module = ConvClassifier(4, features=5, hidden=6, dtype=jnp.float64)
    with jax.enable_x64(True):
        params = randomised(initial(module, images))
        of = in_float64(params["params"])
        x = in_float64(images).reshape(6, 9, 9, 2)
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, of["Convolution_0"]["kernel"], (2, 2), "SAME", dimension_numbers=layout
        )
        x = jax.nn.swish(x + of["Convolution_0"]["bias"][None, None, None]).reshape(6, 5 * 5 * 5)
        x = jax.nn.swish(x @ of["Dense_0"]["kernel"] + of["Dense_0"]["bias"][None])
        expected = (x @ of["Dense_1"]["kernel"] + of["Dense_1"]["bias"][None]).reshape(3, 2, 4)
        # The last layer has 7 terms in float32, each no larger than the sum of their sizes.
        size = float((jnp.abs(x) @ jnp.abs(of["Dense_1"]["kernel"])).max())
        found = jax.jit(module.apply)(params, images)
        np.testing.assert_allclose(found, expected, rtol=0, atol=8 * EPS * (size + 1))
        alone = jax.jit(module.apply)(params, images[0, 0])
        np.testing.assert_allclose(alone, expected[0, 0], rtol=0, atol=8 * EPS * (size + 1))


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (lambda: WideResNet(12, 1, 10), (8, 8, 1), r"depth must be 6n \+ 4"),
        (lambda: WideResNet(10, 1, 10, norm="layer"), (8, 8, 1), "got norm='layer'"),
        (lambda: WideResNet(10, 1, 10), (8, 8), "images must have shape"),
        (lambda: ConvClassifier(0), (8, 8, 1), "num_classes must be"),
        (lambda: MLPEnergy(), (), "got a scalar"),
        (lambda: ConvGenerator((), 1), (4,), "features must name"),
    ],
)
def test_bad_input_is_named(network, shape, message):
    with pytest.raises(ValueError, match=message):
        network().init(jax.random.key(0), jnp.zeros(shape))


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (MLPEnergy(dtype=jnp.bfloat16), (2,)),
        (LatentEnergy(dtype=jnp.bfloat16), (9,)),
        (WideResNet(10, 1, 4, dtype=jnp.bfloat16), (8, 8, 1)),
        (WideResNet(10, 1, 4, "group", dtype=jnp.bfloat16), (8, 8, 1)),
        (ConvGenerator((8,), 1, dtype=jnp.bfloat16), (5,)),
        (ConvClassifier(4, dtype=jnp.bfloat16), (8, 8, 1)),
        (ResidualEnergy((3,), 1, dtype=jnp.bfloat16), (8, 8, 1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bfloat16_computes_inside_and_float32_comes_out(network, shape):
    x = jnp.ones(shape)
    params = jax.eval_shape(network.init, jax.random.key(0), x)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    assert jax.eval_shape(network.apply, params, x).dtype == jnp.float32
    assert jax.eval_shape(network.apply, params, x.astype(jnp.bfloat16)).dtype == jnp.float32
    wide = network.clone(dtype=jnp.float32)
    variables = jax.jit(network.init)(jax.random.key(0), x)
    assert jnp.any(network.apply(variables, x) != wide.apply(variables, x))
