"""Inception-v3 against a second implementation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inception_reference import NumpyPrimitives, Reference, random_state_dict

from ebmjax.networks import load_inception
from ebmjax.networks._inception import InceptionV3, inception_inputs
from ebmjax.networks._inception_weights import inception_variables

EPS32 = np.finfo(np.float32).eps
LAYERS = list(Reference({}).layers)


# ---- the network ----


@pytest.fixture(scope="module")
def state_dict():
    return random_state_dict()


@pytest.fixture(scope="module")
def outputs(state_dict):
    """Input, output and what every layer made of it, from sides that differ to the last grid."""
    variables = inception_variables(state_dict)
    images = np.random.default_rng(1).uniform(-1, 1, (2, 107, 139, 3)).astype(np.float32)

    @jax.jit
    def apply(variables, images):
        return InceptionV3().apply(
            variables,
            images,
            capture_intermediates=lambda module, _: module.name in LAYERS,
            mutable=["intermediates"],
        )

    out, captured = apply(variables, images)
    layers = {name: captured["intermediates"][name]["__call__"][0] for name in LAYERS}
    return jax.tree.map(np.asarray, {"images": images, "out": out, "layers": layers})


def channels_first(x):
    return np.moveaxis(np.asarray(x, np.float64), -1, 1)


def assert_layer_agrees(name, outputs, reference):
    """Each layer from the input it had, so that errors do not add up over the network."""
    before = dict(zip(LAYERS, ["images", *LAYERS], strict=False))[name]
    x = outputs["images"] if before == "images" else outputs["layers"][before]
    want = reference.layers[name](channels_first(x))
    got = channels_first(outputs["layers"][name])
    assert got.shape == want.shape
    # The longest sum has 9 * 448 products: rounding errors of random sign make sqrt(4032) eps of
    # it. At most five such sums follow each other in a layer; five standard deviations.
    tolerance = 5 * 5 * np.sqrt(4032) * EPS32
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())
    assert 0.05 < np.mean(want > 0) < 0.95  # neither dead nor linear: there is something to compare


@pytest.mark.parametrize("name", LAYERS)
def test_layer_agrees_with_the_reference(name, outputs, state_dict):
    assert_layer_agrees(name, outputs, Reference(state_dict))


def test_features_are_averages_and_logits_have_no_bias(outputs, state_dict):
    features = channels_first(outputs["layers"]["Mixed_7c"]).mean((2, 3))
    assert outputs["out"].features.shape == (2, 2048)
    # Sums of 6 and of 2048 products.
    np.testing.assert_allclose(outputs["out"].features, features, rtol=6 * EPS32)
    want = features @ np.float64(state_dict["fc.weight"]).T
    atol = 5 * np.sqrt(2048) * EPS32 * np.abs(want).max()
    np.testing.assert_allclose(outputs["out"].logits, want, rtol=0, atol=atol)


def test_reference_pools_as_it_should():
    x = np.arange(6.0).reshape(1, 1, 2, 3)  # every window of the first column holds 0, 1, 3, 4
    assert NumpyPrimitives.average_pool(x)[0, 0].tolist() == [[2, 2.5, 3], [2, 2.5, 3]]
    assert NumpyPrimitives.max_pool(-x, 1, 1)[0, 0].tolist() == [[0, 0, -1], [0, 0, -1]]


def test_every_product_is_in_full_precision():
    """94 convolutions and the last layer. By default a GPU rounds to ten bits, a TPU to seven."""
    network, images = InceptionV3(), jnp.zeros((1, 75, 75, 3))
    variables = jax.eval_shape(network.init, jax.random.key(0), images)
    equations = jax.make_jaxpr(network.apply)(variables, images).jaxpr.eqns
    products = [e for e in equations if e.primitive.name in ("conv_general_dilated", "dot_general")]
    assert len(products) == 95
    assert {e.params["precision"] for e in products} == {(jax.lax.Precision.HIGHEST,) * 2}


# ---- images ----


def tensorflow_1_pixel(image, row, column):
    """One pixel of the 299x299 image by TensorFlow 1's rule, and its scaling, in float64."""
    height, width, _ = image.shape
    # The position in float32, as there: only so does it fall on the same side of a pixel.
    y = float(np.float32(row) * np.float32(height / 299))
    x = float(np.float32(column) * np.float32(width / 299))
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    up, down = 1 - (y - top), y - top
    near, far = 1 - (x - left), x - left
    image = image.astype(float)
    value = up * (near * image[top, left] + far * image[top, right])
    value += down * (near * image[bottom, left] + far * image[bottom, right])
    return (value - 128) / 128


@pytest.mark.parametrize("size", [(32, 28), (299, 299), (400, 310)], ids=str)
def test_inputs_are_tensorflow_1s(size):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, *size, 3), np.uint8)
    got = np.asarray(jax.jit(inception_inputs)(images))
    assert got.shape == (2, 299, 299, 3)
    edges = [0, 1, 297, 298]
    for row, column in [*zip(edges, edges[::-1], strict=True), *rng.integers(0, 299, (200, 2))]:
        want = tensorflow_1_pixel(images[1], row, column)
        # Four roundings of values up to 255, over 128.
        np.testing.assert_allclose(got[1, row, column], want, rtol=0, atol=4 * 2 * EPS32)


def test_grey_images_are_repeated():
    grey = np.random.default_rng(0).integers(0, 256, (1, 8, 8, 1), np.uint8)
    colour = np.repeat(grey, 3, axis=-1)
    assert np.array_equal(inception_inputs(jnp.array(grey)), inception_inputs(jnp.array(colour)))


def test_inputs_refuse_what_is_no_image():
    for dtype in (jnp.float32, jnp.int32):
        with pytest.raises(TypeError, match="uint8"):
            inception_inputs(jnp.zeros((1, 8, 8, 3), dtype))
    for shape in [(8, 8, 3), (1, 8, 8, 4), (0, 8, 8, 3)]:
        with pytest.raises(ValueError, match="images must have shape"):
            inception_inputs(jnp.zeros(shape, jnp.uint8))


# ---- both ----


@pytest.mark.slow
def test_whole_network_at_its_own_size(state_dict, tmp_path):
    """From uint8 images to features and logits, through the file, against the reference."""
    np.savez(tmp_path / "ours.npz", **state_dict)
    inception_fn = load_inception(tmp_path / "ours.npz")
    images = np.random.default_rng(2).integers(0, 256, (1, 32, 32, 3), np.uint8)
    x = channels_first(inception_inputs(jnp.array(images)))
    for layer in Reference(state_dict).layers.values():
        x = layer(x)
    want = x.mean((2, 3))
    got = inception_fn(images)
    # 47 sums lie on the longest path, each as in assert_layer_agrees.
    tolerance = 5 * 47 * np.sqrt(4032) * EPS32
    np.testing.assert_allclose(got.features, want, rtol=0, atol=tolerance * np.abs(want).max())
    logits = want @ np.float64(state_dict["fc.weight"]).T
    np.testing.assert_allclose(got.logits, logits, rtol=0, atol=tolerance * np.abs(logits).max())
