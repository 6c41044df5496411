"""Loops are counted as often as they run: against the same program written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.metrics import compiled_flops

W = jnp.full((32, 32), 0.1)
X = jnp.ones((32, 32))
PRODUCT = 2 * 32**3


def step(x, _=None):
    return W @ x, None


def looped(length, unroll=1):
    return lambda x: jax.lax.scan(step, x, length=length, unroll=unroll)[0]


def nested(x):
    return jax.lax.scan(lambda x, _: (looped(3)(W @ x), None), x, length=4)[0]


def within_calls(x):
    return jax.checkpoint(jax.jit(looped(5)))(W @ x)


def branched(x):
    return jax.lax.cond(x[0, 0] > 0, looped(3), lambda x: looped(5)(looped(4)(x)), x)


# A loop's counter and its bounds add a handful of operations an iteration.
@pytest.mark.parametrize(
    ("fn", "products"),
    [
        (lambda x: step(x)[0], 1),
        (looped(7), 7),
        (looped(7, unroll=2), 7),
        (looped(7, unroll=3), 7),
        (looped(7, unroll=7), 7),
        (looped(6, unroll=2), 6),
        (nested, 4 * (1 + 3)),
        (within_calls, 6),
        (branched, 9),
    ],
)
def test_matrix_products_are_counted_by_hand(fn, products):
    np.testing.assert_allclose(compiled_flops(fn, X), products * PRODUCT, rtol=1e-3)


def test_a_differentiated_chain_with_rematerialisation():
    """Each of 6 steps has three products: forward, forward again on the way back, and transposed.

    Beside these 18 there are tanh and its derivative, at most 8 operations an element and step."""
    body = jax.checkpoint(lambda x, _: (jnp.tanh(W @ x), None), prevent_cse=False)

    def loss(x):
        return jnp.sum(jax.lax.scan(body, x, length=6)[0])

    flops = compiled_flops(jax.grad(loss), X)
    assert 18 * PRODUCT <= flops <= 18 * PRODUCT + 6 * 8 * X.size


def test_convolutions_are_counted_by_hand():
    """SAME padding lets 3 x 3 filters meet 3 n - 2 of n pixels a side; 2 operations a product."""
    images, filters = jnp.ones((4, 10, 10, 3)), jnp.ones((3, 3, 3, 5))
    convolve = lambda x: jax.lax.conv_general_dilated(  # noqa: E731
        x, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    assert compiled_flops(convolve, images) == 2 * 4 * (3 * 10 - 2) ** 2 * 3 * 5


def test_shapes_suffice():
    assert compiled_flops(looped(2), jax.ShapeDtypeStruct(X.shape, X.dtype)) > PRODUCT
