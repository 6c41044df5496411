"""The two lowerings of a convolution against Flax.

Tolerances: a sum of n float32 products differs from the exact one by at most about n eps times
the same sum of absolute values (Higham 2002, section 3.1). The map is bilinear, so that sum is
the map, or its gradient, at absolute values.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.networks import Convolution, TransposedConvolution, convolve
from ebmjax.networks._transposed_convolution import convolve_transposed

EPS = float(jnp.finfo(jnp.float32).eps)
BATCH, CHANNELS, FEATURES = 3, 2, 5
LOWERINGS = ["matmul", "xla"]

# height, width, kernel size, stride, padding
CONVOLUTIONS = [
    (8, 8, 3, 1, "SAME"),
    (8, 8, 3, 2, "SAME"),
    (7, 8, 3, 2, "SAME"),
    (5, 7, 3, 1, "VALID"),
    (8, 7, 3, 2, "VALID"),
    (7, 8, 1, 2, "SAME"),
    (6, 5, 4, 2, "SAME"),
    (5, 6, 2, 3, "SAME"),
    (3, 3, 3, 1, "VALID"),
    (1, 2, 3, 2, "SAME"),
]
TRANSPOSED = [
    (4, 4, 4, 2, "SAME"),
    (3, 5, 4, 2, "SAME"),
    (1, 1, 4, 1, "VALID"),
    (1, 1, 4, 2, "SAME"),
    (1, 3, 4, 2, "SAME"),
    (3, 2, 3, 2, "SAME"),
    (3, 4, 3, 2, "VALID"),
    (2, 3, 3, 1, "SAME"),
    (2, 3, 3, 1, "VALID"),
    (3, 2, 2, 3, "SAME"),
    (1, 1, 2, 3, "VALID"),
    (2, 2, 2, 3, "VALID"),
    (2, 3, 5, 2, "SAME"),
]
CASES = [(False, *case) for case in CONVOLUTIONS] + [(True, *case) for case in TRANSPOSED]


def flax_layer(case):
    """Flax's layer of a case."""
    is_transposed, _, _, size, stride, padding = case
    layer = nn.ConvTranspose if is_transposed else nn.Conv
    return layer(FEATURES, (size, size), (stride, stride), padding=padding)


def example(case):
    """Images, parameters with a bias, and a cotangent."""
    _, height, width, size, stride, _ = case
    rng = np.random.default_rng(height + 10 * width + 100 * size + stride)
    images = normal(rng, (BATCH, height, width, CHANNELS))
    kernel = normal(rng, (size, size, CHANNELS, FEATURES))
    params = {"params": {"kernel": kernel, "bias": normal(rng, (FEATURES,))}}
    out_shape = jax.eval_shape(flax_layer(case).apply, params, images).shape
    return images, params, normal(rng, out_shape)


def normal(rng, shape):
    return rng.normal(size=shape).astype(np.float32)


def ours(case, lowering):
    is_transposed, _, _, size, stride, padding = case
    layer = TransposedConvolution if is_transposed else Convolution
    return layer(FEATURES, size, stride, padding, lowering)


@functools.partial(jax.jit, static_argnums=0)
def value_and_gradients(layer, params, images, cotangent):
    out, vjp = jax.vjp(layer.apply, params, images)
    return (out, *vjp(cotangent))


def bounds(layer, params, images, cotangent):
    """Largest differences that rounding explains between two orders of the sums, leaf by leaf."""
    taps = params["params"]["kernel"][..., 0].size
    terms = max(taps, cotangent.size, images.size) + 2
    absolute = jax.tree.map(np.abs, (params, images, cotangent))
    found = value_and_gradients(layer, *absolute)
    return jax.tree.map(lambda x: 2 * terms * EPS * np.asarray(x), found)


def assert_within(actual, expected, bound):
    for a, e, b in zip(*map(jax.tree.leaves, (actual, expected, bound)), strict=True):
        assert a.shape == e.shape
        np.testing.assert_array_less(np.abs(np.asarray(a, np.float64) - e), np.asarray(b) + 1e-30)


@functools.cache
def numbers(case):
    """Value and gradients of both lowerings by name, those of Flax, and their bounds."""
    images, params, cotangent = example(case)
    layer = flax_layer(case)
    found = {
        how: value_and_gradients(ours(case, how), params, images, cotangent) for how in LOWERINGS
    }
    expected = value_and_gradients(layer, params, images, cotangent)
    return found, expected, bounds(layer, params, images, cotangent)


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_lowerings_and_flax_agree_in_value_and_gradients(case, lowering):
    found, expected, bound = numbers(case)
    assert_within(found[lowering], expected, bound)


@pytest.mark.parametrize("features", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", [case for case in TRANSPOSED if case[:2] != (1, 1)], ids=str)
def test_stamps_are_added_by_a_product_where_that_is_cheap(case, features):
    """Up to as many output entries as input channels; the numbers are XLA's."""
    height, width, size, stride, padding = case
    overhang = max(size - stride, 0) if padding == "VALID" else 0
    shape = (stride * height + overhang, stride * width + overhang, features)
    most = shape[0] * shape[1] * features
    rng = np.random.default_rng(most)
    layers = [TransposedConvolution(features, size, stride, padding, how) for how in LOWERINGS]

    def problem(channels):
        kernel, bias = normal(rng, (size, size, channels, features)), normal(rng, (features,))
        images = normal(rng, (height, width, channels))
        return {"params": {"kernel": kernel, "bias": bias}}, images

    for channels in (most, most - 1):
        given = (*problem(channels), normal(rng, shape))
        products, theirs = (value_and_gradients(layer, *given) for layer in layers)
        assert_within(products, theirs, bounds(layers[1], *given))


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("case", [CASES[2], CASES[10]], ids=["plain", "transposed"])
def test_any_leading_axes_are_the_batch(case, lowering):
    images, params, _ = example(case)
    layer = ours(case, lowering)
    apply = jax.jit(layer.apply)
    found, _, bounded = numbers(case)
    expected, bound = found[lowering][0], bounded[0]
    assert_within(jnp.stack([apply(params, image) for image in images]), expected, bound)
    assert_within(jax.jit(jax.vmap(layer.apply, (None, 0)))(params, images), expected, bound)
    assert_within(apply(params, images[:, None]), expected[:, None], bound[:, None])
    assert apply(params, images[:0]).shape == (0, *expected.shape[1:])


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[7]], ids=str)
def test_second_derivatives_in_both_modes_equal_those_of_the_products(case):
    images, params, _ = example(case)
    directions = jax.tree.map(lambda leaf: leaf[::-1], (params, images))

    @functools.partial(jax.jit, static_argnums=0)
    def hessian_products(lowering):
        layer = ours(case, lowering)
        gradient = jax.grad(lambda both: jnp.sum(layer.apply(*both) ** 3))
        forward = jax.jvp(gradient, ((params, images),), (directions,))[1]
        backward = jax.vjp(gradient, (params, images))[1](directions)[0]
        return forward, backward

    forward, backward = hessian_products("xla")
    expected, _ = hessian_products("matmul")
    # Each entry is a sum of at most 3 n terms of size up to max |entry|, in two orders.
    for found in (forward, backward):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            terms = 3 * max(images.size, params["params"]["kernel"].size)
            np.testing.assert_allclose(a, b, rtol=0, atol=terms * EPS * float(jnp.abs(b).max()))


@pytest.mark.parametrize("layer", [Convolution, TransposedConvolution])
def test_parameters_do_not_depend_on_the_lowering(layer):
    images = jnp.zeros((4, 4, 2))
    first, second = (layer(8, lowering=how).init(jax.random.key(0), images) for how in LOWERINGS)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert all(jax.tree.leaves(jax.tree.map(jnp.array_equal, first, second)))
    assert jax.tree.map(lambda x: x.dtype, first) == jax.tree.map(lambda x: jnp.float32, first)


def test_convolution_starts_as_pytorch_does():
    size, channels, features = 3, 32, 128
    params = Convolution(features).init(jax.random.key(0), jnp.zeros((4, 4, channels)))["params"]
    limit = 1 / np.sqrt(size * size * channels)
    assert params["kernel"].shape == (size, size, channels, features)
    assert float(jnp.max(jnp.abs(params["kernel"]))) <= limit * (1 + EPS)
    # The variance of U(-a, a) is a^2 / 3, that of its square 4 a^4 / 45; 5 standard errors.
    error = 5 * np.sqrt(4 / 45 / params["kernel"].size)
    assert abs(float(jnp.mean(params["kernel"] ** 2)) / limit**2 - 1 / 3) < error
    assert not jnp.any(params["bias"])


def test_transposed_convolution_starts_as_flax_does():
    """Unless told otherwise it doubles the image, by a window of 4."""
    images = jnp.zeros((4, 4, 3))
    out, ours = TransposedConvolution(5).init_with_output(jax.random.key(0), images)
    assert out.shape == (8, 8, 5)
    theirs = nn.ConvTranspose(5, (4, 4), (2, 2)).init(jax.random.key(0), images)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_dtype_sets_the_computation_and_not_the_parameters(lowering):
    # Of as many channels as the output has entries, the stamps are added by a product.
    for layer, shape in (
        (Convolution, (4, 4, 2)),
        (TransposedConvolution, (4, 4, 2)),
        (TransposedConvolution, (1, 1, 2)),
        (TransposedConvolution, (2, 2, 48)),
    ):
        module = layer(3, lowering=lowering, dtype=jnp.bfloat16)
        out, params = jax.jit(module.init_with_output)(jax.random.key(0), jnp.ones(shape))
        assert out.dtype == jnp.bfloat16
        assert params["params"]["kernel"].dtype == jnp.float32


IMAGE, KERNEL = jnp.zeros((8, 8, 1)), jnp.zeros((3, 3, 1, 2))


@pytest.mark.parametrize("function", [convolve, convolve_transposed])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": jnp.zeros((8, 8))}, "last axis"),
        ({"images": jnp.zeros((8, 8, 2))}, "2 channels"),
        ({"kernel": KERNEL[:, :2]}, "kernel must have shape"),
        ({"padding": "same"}, "padding='same'"),
        ({"lowering": "gemm"}, "'xla' or None, got lowering='gemm'"),
        ({"stride": 0}, "stride must be .* at least 1, got stride=0"),
    ],
)
def test_bad_input_is_named(function, changes, message):
    with pytest.raises(ValueError, match=message):
        function(**({"images": IMAGE, "kernel": KERNEL} | changes))


def test_a_window_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="2x8 pixels are smaller than the 3x3"):
        convolve(IMAGE[:2], KERNEL, padding="VALID")
    with pytest.raises(ValueError, match="kernel_size must be an integer"):
        Convolution(2, kernel_size=0).init(jax.random.key(0), IMAGE)
