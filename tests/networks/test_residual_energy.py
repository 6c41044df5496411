"""The residual energy network against the same function written out with JAX's own operations.

Bodies are compared in float64, where their rounding is negligible; what is left is the float32
head, off by at most (n + 2) eps times the product of absolute values.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ebmjax.networks import ResidualEnergy

EPS = float(jnp.finfo(jnp.float32).eps)
SMALL = functools.partial(ResidualEnergy, features=(3, 4), depth=1)
CLASSES = 3
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(4, 9, 8, 2)).astype(np.float32)
LABELS = np.array([2, 0, 1, 2], np.int32)


def randomised(params, seed=1):
    """The same shapes with every entry, zeros included, away from its start."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda p: np.float32(p + 0.3 * rng.normal(size=p.shape)), params)


def initial(network, *inputs):
    return jax.jit(network.init)(jax.random.key(0), *inputs)


def in_float64(tree):
    return jax.tree.map(lambda x: np.asarray(x, np.float64), tree)


def leaky(x):
    return jnp.where(x > 0, x, 0.2 * x)


def convolution(layer, x):
    dimensions = ("NHWC", "HWIO", "NHWC")
    out = lax.conv_general_dilated(x, layer["kernel"], (1, 1), "SAME", dimension_numbers=dimensions)
    return out + layer["bias"][None, None, None, :]


def halved(x):
    """Means over the pixels that there are, in windows of XLA's SAME padding."""
    sums, counts = (
        lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        for y in (x, jnp.ones_like(x))
    )
    return sums / counts


def written_out(layers, x, labels, stages, depth):
    """The energy at one scale and the bound on its float32 rounding."""
    x = leaky(convolution(layers["Convolution_0"], x))
    for index in range(stages * depth):
        block = layers[f"EnergyBlock_{index}"]

        def of_class(name, block=block):
            return block[name][labels][:, None, None, :]

        y = x if labels is None else x + of_class("bias_0")
        y = leaky(convolution(block["Convolution_0"], y))
        y = y if labels is None else y + of_class("bias_1")
        y = convolution(block["Convolution_1"], y)
        y = y if labels is None else y * of_class("gain")
        x = convolution(block["shortcut"], x) if "shortcut" in block else x
        x = leaky(halved(x + y) if index % depth == 0 else x + y)
    total = x.sum((1, 2))
    kernel, bias = layers["head"]["kernel"][:, 0], layers["head"]["bias"]
    bound = (len(kernel) + 2) * EPS * (jnp.abs(total) @ jnp.abs(kernel) + jnp.abs(bias))
    return total @ kernel + bias, bound


@pytest.mark.slow
@pytest.mark.parametrize("lowering", ["matmul", "xla"])
@pytest.mark.parametrize("labels", [None, LABELS], ids=["images", "classes"])
def test_it_equals_its_definition(labels, lowering):
    num_classes = None if labels is None else CLASSES
    with jax.enable_x64(True):
        network = ResidualEnergy(
            features=(3, 4),
            depth=2,
            num_classes=num_classes,
            num_scales=2,
            spectral_norm=None,
            lowering=lowering,
            dtype=jnp.float64,
        )
        params = randomised(initial(network, IMAGES, labels))
        energy = jax.jit(network.apply)(params, IMAGES, labels)
        layers = in_float64(params["params"])
        definition = jax.jit(written_out, static_argnums=(3, 4))
        full = definition(layers["scale_0"], in_float64(IMAGES), labels, 2, 2)
        half = definition(layers["scale_1"], halved(in_float64(IMAGES)), labels, 2, 2)
        assert energy.dtype == jnp.float32
        wide = jax.eval_shape(network.apply, params, in_float64(IMAGES), labels)
        assert wide.dtype == jnp.float32
        # One more rounding where the scales are added.
        bound = full[1] + half[1] + EPS * (jnp.abs(full[0]) + jnp.abs(half[0]))
        np.testing.assert_array_less(np.abs(energy - (full[0] + half[0])), bound)


@functools.cache
def conditional():
    """A capped network of classes and its parameters, all of whose kernels are above the limit."""
    network = SMALL(num_classes=CLASSES, spectral_norm=0.8)
    return network, randomised(initial(network, IMAGES, LABELS))


def sizes(energies):
    """The scale of what is summed up to an energy, for tolerances."""
    return float(np.max(np.abs(energies)) + 1)


# Two orders of the same float32 sums: 6 convolutions of at most 9 * 4 + 2 terms, 8 pixels, a head.
REORDERED = 8 * 38 * EPS


@pytest.mark.slow
def test_kernels_enter_capped_and_folding_keeps_the_energy_and_its_gradients():
    network, params = conditional()
    folded = network.clone(spectral_norm=None)
    assert network.fold(params)[0] == folded
    capped = jax.jit(lambda params: network.fold(params)[1])(params)
    energies = jax.jit(network.apply)(params, IMAGES, LABELS)
    np.testing.assert_allclose(
        jax.jit(folded.apply)(capped, IMAGES, LABELS), energies, atol=REORDERED * sizes(energies)
    )
    uncapped = jax.jit(folded.apply)(params, IMAGES, LABELS)
    assert np.all(np.abs(uncapped - energies) > 0.1)

    def through_fold(params):
        folded, capped = network.fold(params)
        return jnp.sum(folded.apply(capped, IMAGES, LABELS))

    want = jax.jit(jax.grad(lambda p: jnp.sum(network.apply(p, IMAGES, LABELS))))(params)
    got = jax.jit(jax.grad(through_fold))(params)
    largest = max(np.max(np.abs(leaf)) for leaf in jax.tree.leaves(want))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=REORDERED * largest), got, want
    )


@pytest.mark.slow
def test_one_image_has_the_energy_and_the_score_it_has_in_a_batch():
    network, params = conditional()
    together = jax.jit(network.apply)(params, IMAGES, LABELS)

    def one(image, label):
        return network.apply(params, image, label)

    apart, scores = jax.jit(jax.vmap(jax.value_and_grad(one)))(IMAGES, LABELS)
    np.testing.assert_allclose(apart, together, atol=REORDERED * sizes(together))
    assert scores.shape == IMAGES.shape
    whole = jax.jit(jax.grad(lambda x: jnp.sum(network.apply(params, x, LABELS))))(IMAGES)
    np.testing.assert_allclose(scores, whole, atol=REORDERED * sizes(whole))
    assert np.all(np.any(np.asarray(scores) != 0, axis=(1, 2, 3)))


def test_at_the_start_residual_branches_are_silent_and_classes_alike():
    network = SMALL(num_classes=CLASSES)
    params = initial(network, IMAGES, LABELS)
    for block in range(2):
        kernel = params["params"]["scale_0"][f"EnergyBlock_{block}"]["Convolution_1"]["kernel"]
        np.testing.assert_array_equal(kernel, np.zeros_like(kernel))
        tables = params["params"]["scale_0"][f"EnergyBlock_{block}"]
        for name, start in (("bias_0", 0), ("bias_1", 0), ("gain", 1)):
            np.testing.assert_array_equal(tables[name], np.full_like(tables[name], start))
    apply = jax.jit(network.apply)
    per_class = [apply(params, IMAGES, np.full(4, label, np.int32)) for label in range(CLASSES)]
    np.testing.assert_array_equal(per_class[1], per_class[0])
    np.testing.assert_array_equal(per_class[2], per_class[0])


def test_the_other_kernels_start_he_normal():
    """The variance of n normal draws is known to sqrt(2 / n) of it; of cut ones, better."""
    network = SMALL(features=(16, 32))
    layers = initial(network, IMAGES)["params"]["scale_0"]
    blocks = [layers["EnergyBlock_0"], layers["EnergyBlock_1"]]
    kernels = [layers["Convolution_0"]["kernel"], blocks[1]["shortcut"]["kernel"]]
    kernels += [block["Convolution_0"]["kernel"] for block in blocks]
    for kernel in kernels:
        ratio = float(jnp.mean(kernel**2)) * np.prod(kernel.shape[:-1]) / 2
        assert abs(ratio - 1) < 5 * np.sqrt(2 / kernel.size)


def test_the_sum_over_pixels_is_float32():
    """289 pixels of value 1, which the 8 bits of bfloat16 cannot count."""
    network = ResidualEnergy(features=(1,), depth=1, dtype=jnp.bfloat16)
    images = jnp.zeros((34, 34, 1))
    params = jax.tree.map(jnp.zeros_like, initial(network, images))
    layers = params["params"]["scale_0"]
    layers["Convolution_0"]["bias"] = jnp.ones(1)
    layers["head"]["kernel"] = jnp.ones((1, 1))
    assert float(jax.jit(network.apply)(params, images)) == 289.0


def test_the_defaults_are_the_published_network():
    network = ResidualEnergy()
    assert network.spectral_norm == 1.0
    params = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((32, 32, 3)))
    # Channels in and out of every convolution: the first, two a block, a shortcut where they grow.
    pairs = [(3, 128), *[(128, 128)] * 6]
    pairs += [(128, 256)] * 2 + [(256, 256)] * 5
    pairs += [(256, 512)] * 2 + [(512, 512)] * 5
    want = sum(9 * i * o + o for i, o in pairs) + 512 + 1
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == want
    assert jax.eval_shape(network.apply, params, jnp.zeros((2, 32, 32, 3))).shape == (2,)


def test_a_traced_label_out_of_range_makes_that_energy_nan():
    network, params = conditional()
    energies = jax.jit(network.apply)(params, IMAGES, jnp.array([0, -1, 3, 2]))
    np.testing.assert_array_equal(np.isnan(energies), [False, True, True, False])


@pytest.mark.parametrize(
    ("options", "images", "labels", "match"),
    [
        ({}, IMAGES, LABELS, "labels must be given where num_classes is"),
        ({"num_classes": 2}, IMAGES, LABELS, r"lie in 0\.\.1; .* 0 to 2"),
        ({}, IMAGES[:, :3], None, "at least 4 pixels a side"),
        ({"num_scales": 3}, IMAGES, None, "at least 16 pixels a side"),
        ({"features": (8, 0)}, IMAGES, None, "every entry of features"),
        ({"spectral_norm": 0.0}, IMAGES, None, "spectral_norm must be positive"),
    ],
)
def test_bad_input(options, images, labels, match):
    with pytest.raises(ValueError, match=match):
        SMALL(**options).init(jax.random.key(0), images, labels)
