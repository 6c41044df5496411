"""Networks against the same function written out with JAX's own operations.

Bodies are compared in float64 (``dtype=jnp.float64`` under x64), where their rounding is
negligible; what is left is the last, float32 product of n terms, off by at most (n + 2) eps
times the product of absolute values.
"""

import functools
import itertools

import flax.linen as nn
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


@pytest.mark.parametrize(
    ("features", "channels", "side"),
    [((64,), 1, 8), ((64, 32, 16), 3, 32), ((64, 32, 16, 8), 3, 64)],
)
def test_generator_sizes_and_parameters(features, channels, side):
    module = ConvGenerator(features, channels)
    params = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros(16))
    widths = (16, *features, channels)
    assert count(params) == sum(16 * i * o + o for i, o in itertools.pairwise(widths))
    images = jax.eval_shape(module.apply, params, jnp.zeros((2, 16)))
    assert images.shape == (2, side, side, channels)
    assert jax.eval_shape(module.apply, params, jnp.zeros(16)).shape == (side, side, channels)


@pytest.mark.parametrize(("height", "width"), [(25, 25), (28, 28), (33, 48), (1, 3)])
@pytest.mark.parametrize("channels", [1, 3])
def test_generator_makes_any_side(height, width, channels):
    module = ConvGenerator((8, 4), channels, image_size=(height, width))
    made, _ = jax.eval_shape(module.init_with_output, jax.random.key(0), jnp.zeros((2, 16)))
    assert made.shape == (2, height, width, channels)


def test_generator_starts_lecun_normal_unless_told_otherwise():
    z = jnp.zeros(16)
    layers = initial(ConvGenerator((16, 8), 3), z)["params"]
    for layer in layers.values():
        kernel = layer["kernel"]
        # The variance of n normal draws is known to sqrt(2 / n) of it; cut at two deviations, as
        # they are, it is known better.
        variance = float(jnp.mean(kernel**2)) * 16 * kernel.shape[2]
        assert abs(variance - 1) < 5 * np.sqrt(2 / kernel.size)
        assert not jnp.any(layer["bias"])
    ones = initial(ConvGenerator((16, 8), 3, kernel_init=nn.initializers.ones_init()), z)["params"]
    for layer in ones.values():
        np.testing.assert_array_equal(layer["kernel"], np.ones_like(layer["kernel"]))


def written_out_wrn(layers, x, widen_factor, blocks, norm):
    """The logits and the bound on their float32 rounding."""

    def convolution(layer, x, stride=1):
        dimensions = ("NHWC", "HWIO", "NHWC")
        out = lax.conv_general_dilated(
            x, layer["kernel"], (stride, stride), "SAME", dimension_numbers=dimensions
        )
        return out + layer["bias"][None, None, None, :]

    def activate(x, scope, index):
        if norm == "group":
            n, h, w, c = x.shape
            grouped = x.reshape(n, h, w, 8, c // 8)
            mean = grouped.mean((1, 2, 4), keepdims=True)
            variance = ((grouped - mean) ** 2).mean((1, 2, 4), keepdims=True)
            x = ((grouped - mean) / jnp.sqrt(variance + 1e-5)).reshape(x.shape)
            scale, bias = (scope[f"GroupNorm_{index}"][name] for name in ("scale", "bias"))
            x = x * scale[None, None, None] + bias[None, None, None]
        return leaky(x, 0.2)

    x = convolution(layers["Convolution_0"], x)
    for index in range(3 * blocks):
        block = layers[f"ResidualBlock_{index}"]
        stride = 2 if index in (blocks, 2 * blocks) else 1
        y = convolution(block["Convolution_0"], activate(x, block, 0))
        y = convolution(block["Convolution_1"], activate(y, block, 1), stride)
        changes = stride == 2 or (index == 0 and widen_factor > 1)
        x = y + (convolution(block["shortcut"], x, stride) if changes else x)
    return dense(layers["Dense_0"], activate(x, layers, 0).mean((1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "widen_factor", "norm", "lowering", "shape"),
    [
        (10, 1, None, "matmul", (8, 8, 1)),
        (10, 1, None, "xla", (8, 8, 1)),
        (10, 2, "group", "matmul", (7, 6, 3)),
        (16, 1, None, "matmul", (5, 8, 1)),
        (22, 1, "group", "matmul", (4, 5, 1)),
    ],
)
def test_wide_resnet_equals_its_definition(depth, widen_factor, norm, lowering, shape):
    images = np.random.default_rng(3).uniform(size=(3, *shape)).astype(np.float32)
    with jax.enable_x64(True):
        module = WideResNet(depth, widen_factor, 4, norm, lowering, jnp.float64)
        params = randomised(initial(module, images))
        reference = functools.partial(
            written_out_wrn, widen_factor=widen_factor, blocks=(depth - 4) // 6, norm=norm
        )
        expected, bound = jax.jit(reference)(in_float64(params["params"]), in_float64(images))
        logits = jax.jit(module.apply)(params, images)
        assert logits.dtype == jnp.float32
        # One more eps for the float32 average of the features.
        np.testing.assert_array_less(np.abs(logits - expected), 2 * bound)


def test_wide_resnet_parameter_count():
    def block(i, o):
        return 9 * i * o + o + 9 * o * o + o + (i * o + o if i != o else 0)

    stages = [block(i, o) + 3 * block(o, o) for i, o in [(16, 160), (160, 320), (320, 640)]]
    by_hand = (9 * 3 * 16 + 16) + sum(stages) + (640 * 10 + 10)
    images = jnp.zeros((32, 32, 3))
    params = jax.eval_shape(WideResNet(28, 10, 10).init, jax.random.key(0), images)
    assert count(params) == by_hand == 36_471_338

    grouped = jax.eval_shape(WideResNet(28, 10, 10, "group").init, jax.random.key(0), images)
    per_stage = [2 * (i + 7 * o) for i, o in [(16, 160), (160, 320), (320, 640)]]
    assert count(grouped) == by_hand + sum(per_stage) + 2 * 640


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
    ("network", "shape", "layers"),
    [
        (WideResNet(10, 1, 4), (8, 8, 1), 1 + 3 * 2 + 2),
        (ConvGenerator((8,), 1), (5,), 2),
        (ResidualEnergy((3,), 1), (8, 8, 1), 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_convolution_is_lowered_as_asked(network, shape, layers):
    x = jnp.ones(shape)
    for lowering, expected in (("xla", layers), ("matmul", 0)):
        module = network.clone(lowering=lowering)
        params = jax.eval_shape(module.init, jax.random.key(0), x)
        program = str(jax.make_jaxpr(module.apply)(params, x))
        assert program.count("conv_general_dilated[") == expected


def test_a_network_has_second_derivatives_in_both_modes():
    module = ConvGenerator((3,), 1, dtype=jnp.float64)
    z = np.random.default_rng(5).normal(size=4)

    def products(params, z):
        def energy(z):
            return jnp.sum(module.apply(params, z) ** 2)

        forward = jax.jvp(jax.grad(energy), (z,), (jnp.ones_like(z),))[1]
        return forward, jax.grad(lambda z: jnp.sum(jax.grad(energy)(z)))(z)

    with jax.enable_x64(True):
        params = randomised(initial(module, z))
        forward, reverse = jax.jit(products)(params, z)
        scale = float(jnp.abs(reverse).max())
        assert scale > 0
        # 64 pixels pass through a float32 tanh and its derivatives, all of order one.
        np.testing.assert_allclose(forward, reverse, rtol=0, atol=64 * 4 * EPS * scale)


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (lambda: WideResNet(12, 1, 10), (8, 8, 1), r"depth must be 6n \+ 4"),
        (lambda: WideResNet(10, 1, 10, norm="layer"), (8, 8, 1), "got norm='layer'"),
        (lambda: WideResNet(10, 0, 10), (8, 8, 1), "widen_factor"),
        (lambda: WideResNet(10, 1, 10), (8, 8), "images must have shape"),
        (lambda: ConvClassifier(0), (8, 8, 1), "num_classes must be"),
        (lambda: MLPEnergy((8, 0)), (2,), "hidden"),
        (lambda: MLPEnergy(), (), "got a scalar"),
        (lambda: ConvGenerator((), 1), (4,), "features must name"),
        (lambda: ConvGenerator((8, 0), 1), (4,), "of features"),
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
