"""Networks as pairs of pure functions: the same numbers as the network, and no more state."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.networks import WideResNet, from_linen


class Flat(nn.Module):
    """A network that knows nothing of statistics."""

    @nn.compact
    def __call__(self, images):
        return nn.Dense(3)(images.reshape(*images.shape[:-3], -1))


def images_of(shape=(4, 6, 6, 1), seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def assert_equal(first, second):
    jax.tree.map(np.testing.assert_array_equal, first, second)


@functools.cache
def wide_resnet(norm="batch"):
    """The network, its classifier, and a start."""
    network = WideResNet(10, 1, 3, norm)
    made = from_linen(network)
    return network, made, jax.jit(made.init)(jax.random.key(0), images_of())


@pytest.mark.slow
def test_functions_give_the_numbers_of_the_network():
    network, made, (params, statistics) = wide_resnet()
    images = images_of()
    variables = jax.jit(network.init)(jax.random.key(0), images)
    assert_equal({"params": params, "batch_stats": statistics}, variables)

    batch = functools.partial(network.apply, statistics="batch", mutable=["batch_stats"])
    expected, updated = jax.jit(batch)(variables, images)
    use_batch = jax.jit(functools.partial(made.apply, use="batch"))
    logits, averages = use_batch(params, statistics, images)
    assert_equal((logits, averages), (expected, updated["batch_stats"]))
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(averages)) > 0

    variables = {"params": params, "batch_stats": averages}
    running, same = jax.jit(made.apply)(params, averages, images)
    assert_equal((running, same), (jax.jit(network.apply)(variables, images), averages))
    assert np.abs(running - logits).max() > 0.001


@pytest.mark.slow
def test_chains_follow_the_gradient_of_their_summed_log_density():
    """Through the shared mean and variance too: what PyTorch's ``energy.sum().backward()`` is."""
    _, made, (params, statistics) = wide_resnet()
    images = 10 * images_of()

    def log_density(image):
        logits, _ = made.apply(params, statistics, image, use="batch", batch_axis="chains")
        return jax.nn.logsumexp(logits)

    def total(images):
        logits, _ = made.apply(params, statistics, images, use="batch")
        return jax.nn.logsumexp(logits, axis=-1).sum()

    chains = jax.jit(jax.vmap(jax.grad(log_density), axis_name="chains"))(images)
    expected = jax.jit(jax.grad(total))(images)
    scale = np.abs(expected).max()
    # Sums in another order: some 64 terms in each of twelve layers, there and back.
    tolerance = 2 * 64 * 12 * float(jnp.finfo(jnp.float32).eps)
    np.testing.assert_allclose(chains, expected, rtol=0, atol=tolerance * scale)
    alone = jax.jit(jax.vmap(jax.grad(lambda image: total(image[None]))))(images)
    assert np.abs(alone - expected).max() > 100 * tolerance * scale


class HeadAlone(Flat):
    """A method called as the second part of a network is, where there is no first."""

    def head(self, features):
        return features


@pytest.mark.parametrize("network", [Flat(), HeadAlone()], ids=["plain", "head"])
def test_a_network_without_statistics_has_one_use_and_no_split(network):
    images = images_of()
    made = from_linen(network)
    params, statistics = made.init(jax.random.key(0), images)
    assert statistics == {}
    assert made.first_layer is None
    assert made.head is None
    expected = network.apply({"params": params}, images)
    for use in ("running", "batch"):
        assert_equal(made.apply(params, {}, images, use=use, batch_axis="chains"), (expected, {}))
    half = images.astype(jnp.bfloat16)
    assert (
        from_linen(nn.Dense(3, dtype=jnp.bfloat16))
        .apply({"kernel": np.ones((1, 3)), "bias": np.ones(3)}, {}, half)[0]
        .dtype
        == jnp.float32
    )


def test_bad_input_is_named():
    _, made, (params, statistics) = wide_resnet()
    with pytest.raises(ValueError, match="use must be 'running' or 'batch', got use='eval'"):
        made.apply(params, statistics, images_of(), use="eval")
    with pytest.raises(TypeError, match=r"got function; there are also.*from_functions\("):
        from_linen(lambda images: images)  # type: ignore[arg-type]


class OwnNorm(nn.Module):
    """A network that centres by a layer of its own, and asks for the axes."""

    batch_axis: str | None = None

    @nn.compact
    def __call__(self, images, *, statistics="running"):
        centre = self.variable("batch_stats", "centre", jnp.zeros, ())
        if statistics == "batch":
            mean = images.mean()
            centre.value = jax.lax.pmean(mean, self.batch_axis) if self.batch_axis else mean
        return (images - centre.value).sum((-3, -2, -1))


def test_a_network_that_asks_for_the_axes_is_told():
    made, images = from_linen(OwnNorm()), images_of()
    params, statistics = made.init(jax.random.key(0), images)
    one = functools.partial(made.apply, params, statistics, use="batch", batch_axis="chains")
    alone, centre = jax.vmap(one, axis_name="chains", out_axes=(0, None))(images)
    together, expected = made.apply(params, statistics, images, use="batch")
    # Sums of 36 and means of 144 terms of order one.
    np.testing.assert_allclose(alone, together, atol=1e-4)
    np.testing.assert_allclose(centre["centre"], expected["centre"], atol=1e-6)
