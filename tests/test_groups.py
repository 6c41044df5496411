"""Groups of rows that are dealt to devices give what one device gives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import evaluate
from ebmjax._groups import in_batches, map_groups, on_devices, over_devices
from ebmjax.data import ImageData
from ebmjax.evaluate import Extractor
from ebmjax.networks._convolution import convolve

ROWS = np.random.default_rng(0).standard_normal((37, 4, 4, 1), np.float32)
KEYS = jax.random.split(jax.random.key(0), 37)


def shaken(scale, pair):
    key, row = pair
    return {"sum": jnp.sum(scale * row), "noise": scale + jax.random.normal(key, (2,))}


@pytest.mark.parametrize("batch_size", [None, 1, 4, 16, 40])
@pytest.mark.parametrize("num_used", [2, 3, 8])
def test_every_row_is_computed_once_and_in_its_place(batch_size, num_used):
    scale = jnp.float32(3)

    def run(scale):
        def of_all(scale):
            return map_groups(partial(shaken, scale), (KEYS, ROWS), batch_size)

        return jax.jit(of_all)(scale), "shard_map" in str(jax.make_jaxpr(of_all)(scale))

    alone, _ = run(scale)
    with over_devices(jax.devices()[:num_used]):
        dealt, is_dealt = run(on_devices(scale))
    # Sums of 16 numbers of about 3, in another order at most.
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-5), dealt, alone)
    assert is_dealt == (len(ROWS) > (batch_size or 1))


def test_each_device_computes_its_groups_alone():
    """The program of a device holds one group's rows, and as few groups as there are for it."""
    rows = jnp.zeros((16, 5, 3))
    with over_devices():
        text = jax.jit(lambda x: map_groups(lambda row: row @ row.T, x)).lower(rows).as_text()
    assert "tensor<2x5x3xf32>" in text  # 16 groups on 8 devices
    assert "sdy.manual_computation" in text


def test_logits_and_features_of_all_devices_are_those_of_one():
    images = np.random.default_rng(1).integers(0, 256, (70, 4, 4, 1), np.uint8)
    weights = np.random.default_rng(2).standard_normal((16, 6), np.float32)
    logits_fn = jax.tree_util.Partial(lambda w, x: x.reshape(len(x), -1) @ w, weights)
    pixels = Extractor("pixels", lambda x: (x.reshape(len(x), -1) / 255, None), {})
    train = ImageData(images, np.zeros(70, np.int32))

    def found():
        distances = evaluate.Distances(train, pixels, batch_size=16)
        return [
            evaluate.scores(logits_fn, images, batch_size=16),
            distances.scores(images[::-1].copy()).numbers,
            distances.train_reference.features,
        ]

    alone = found()
    with over_devices():
        dealt = found()
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), dealt, alone)


def test_one_batch_and_one_device_keep_their_program():
    function = lambda rows: rows  # noqa: E731
    assert in_batches(function, 100, 10) == (function, 10)
    with over_devices():
        assert in_batches(function, 10, 10) == (function, 10)
        all_rows, size = in_batches(function, 11, 10)
    assert size == 80
    with over_devices():
        rows = np.arange(160, dtype=np.float32).reshape(80, 2)
        np.testing.assert_array_equal(jax.jit(all_rows)(rows), rows)


def test_gradients_of_a_convolution_whose_kernel_lies_on_every_device():
    """Its derivative needs no array for a tangent that is zero: such a one has a foreign mesh."""
    images = jax.random.normal(jax.random.key(0), (4, 1, 9, 9, 8))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 8, 2))

    def gradients(kernel):
        energy = lambda x: jnp.sum(convolve(x, kernel) ** 2)  # noqa: E731
        return map_groups(jax.grad(energy), images)

    expected = gradients(kernel)
    with over_devices(jax.devices()[:2]):
        found = gradients(on_devices(kernel))
    # Gradients of about 100, each a sum of 1,300 products in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
