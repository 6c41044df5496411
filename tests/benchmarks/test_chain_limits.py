"""The limits of a chain: the products of its gradients are found and counted."""

import jax.numpy as jnp
import pytest

from ebmjax import networks


@pytest.fixture
def module(load):
    return load("_chain_limits")


def test_a_limit_counts_the_products_of_a_gradient(module):
    """An MLP by its input: each layer's product forwards, and its transpose backwards."""
    weights = [jnp.ones((2, 5)), jnp.ones((5, 7)), jnp.ones((7, 1))]

    def log_density_fn(x):
        for matrix in weights[:-1]:
            x = jnp.tanh(x @ matrix)
        return (x @ weights[-1])[0] ** 2

    found = module.parts(log_density_fn, log_density_fn, jnp.ones((3, 2)), num_steps=4)
    once = 2 * (2 * 5 + 5 * 7 + 7 * 1)
    assert sum(map(module.operations, found.as_products)) == 3 * 2 * once
    shapes = [out.shape for out in module.alone(found.equations)()]
    assert len(shapes) == 6
    assert (3, 5) in shapes
    assert (3, 7) in shapes


def test_rates_are_of_all_gradients_of_a_chain(module, monkeypatch):
    """The chain takes 4 ms, and its products alone 1 ms a gradient."""
    found = module.parts(jnp.sum, lambda x: (x @ jnp.ones((2, 5)) ** 2).sum(), jnp.ones((3, 2)), 4)
    monkeypatch.setattr(
        module.harness,
        "time_in_turn",
        lambda calls, repeats: {name: [0.004 if name == "ours" else 0.001] for name in calls},
    )
    row = module.measure_limit("work", None, found, 1, peak=1e6)
    operations = 4 * sum(map(module.operations, found.as_products))
    assert row["10⁹ op."] == operations / 1e9
    assert row["10⁹ op./s"] == pytest.approx(operations / 0.004 / 1e9)
    assert row["of peak"] == pytest.approx(operations / 0.004 / 1e6)
    assert (row["ours ms"], row["alone ms"], row["as products ms"]) == (4.0, 4.0, 4.0)


def test_convolutions_are_counted_as_products(module):
    image = jnp.ones((4, 9, 9, 8))  # more than 8x8 pixels: XLA's convolution
    by_lowering = [
        lambda x, lowering=lowering: networks.convolve(
            x, jnp.ones((3, 3, 8, 5)), lowering=lowering
        ).sum()
        for lowering in ("xla", "matmul")
    ]
    found = module.parts(*by_lowering, image, num_steps=1)
    assert {one.primitive.name for one in found.equations} == {"conv_general_dilated"}
    assert {one.primitive.name for one in found.as_products} == {"dot_general"}
