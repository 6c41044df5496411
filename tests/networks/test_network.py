"""Networks of Linen, NNX, Equinox and plain functions as pairs of pure functions."""

import functools
import sys

import chex
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from ebmjax import learning, networks, samplers
from ebmjax.data import ImageData
from ebmjax.losses import contrastive_divergence_loss

MEMBERS = 4


class Linen(nn.Module):
    """Written for one batch axis, as users write it, with Flax's usual argument."""

    @nn.compact
    def __call__(self, images, train: bool):
        x = nn.BatchNorm(not train, momentum=0.5)(images)
        return nn.Dense(3)(jnp.tanh(x).reshape(len(x), -1))


class Nnx(nnx.Module):
    def __init__(self, rngs, rate=0.0, pixels=36):
        self.norm = nnx.BatchNorm(1, momentum=0.5, rngs=rngs)
        self.dropout = nnx.Dropout(rate, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(pixels, 3, rngs=rngs)])

    def __call__(self, images):
        x = jnp.tanh(self.dropout(self.norm(images)))
        return self.layers[0](x.reshape(len(x), -1))


class Equinox(eqx.Module):
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    head: eqx.nn.Linear
    order: jax.Array

    def __init__(self, key, is_fixed=True):
        self.norm = eqx.nn.BatchNorm(1, "theirs", momentum=0.5, mode="batch")
        self.dropout = eqx.nn.Dropout(0.5, inference=is_fixed)
        self.head = eqx.nn.Linear(36, 3, key=key)
        self.order = jnp.arange(36)[::-1]

    def __call__(self, image, state):
        x, state = self.norm(jnp.moveaxis(image, -1, 0), state)
        return self.head(self.dropout(jnp.tanh(x)).ravel()[self.order]), state


def images_of(shape=(MEMBERS, 6, 6, 1)):
    return np.random.default_rng(0).normal(1, 2, shape).astype(np.float32)


STATEFUL = {
    "linen": lambda: networks.from_linen(Linen(), input_ndim=3),
    "nnx": lambda: networks.from_nnx(Nnx),
    "equinox": lambda: networks.from_equinox(eqx.nn.make_with_state(Equinox)),
}


@pytest.mark.parametrize("kind", STATEFUL)
def test_batch_statistics_are_carried_and_shared_by_single_images(kind):
    """One image at a time over a named axis is the batch, as chains and shards need it."""
    network, images = STATEFUL[kind](), images_of()
    params, state = jax.jit(network.init)(jax.random.key(0), images)

    @jax.jit
    def all_uses(params, state, images):
        batch = functools.partial(network.apply, params, use="batch")
        one = functools.partial(batch, state, batch_axis="chains")
        together = batch(state, images)
        mapped = jax.vmap(one, axis_name="chains", out_axes=(0, None))(images)
        running = network.apply(params, together[1], images)
        alone = network.apply(params, together[1], images[0])
        return together, mapped, running, alone

    (logits, new), (mapped, same), (running, kept), (alone, _) = all_uses(params, state, images)
    assert logits.shape == mapped.shape == running.shape == (MEMBERS, 3)
    assert alone.shape == (3,)
    # Means of 144 values and a product of 36 terms of order ten, summed in another order.
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
    close(mapped, logits)
    close(alone, running[0])
    jax.tree.map(close, same, new)
    jax.tree.map(np.testing.assert_array_equal, kept, new)
    # The averages take half of the batch's mean, whatever the library calls them.
    change = jax.tree.map(lambda old, now: np.abs(1.0 * now - old).max(), state, new)
    mean = images.mean() / 2
    assert any(np.isclose(leaf, mean, rtol=1e-5) for leaf in jax.tree.leaves(change)), change
    assert np.abs(running - logits).max() > 0.01
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}


@pytest.mark.parametrize("kind", STATEFUL)
def test_a_joint_step_keeps_the_form_of_parameters_and_statistics(kind):
    """Counters and flags included, which must be neither averaged nor differentiated."""
    network, key = STATEFUL[kind](), jax.random.key(0)
    sampler = functools.partial(samplers.sgld, step_size=0.1, noise_scale=0.01)
    plan = learning.ChainPlan(
        kinds={"sgld": learning.ChainKind(sampler=sampler, num_steps=2)},
        num_samples=2,
        start_fn=samplers.uniform_start((6, 6, 1), -1.0, 1.0),
        reinit_prob=0.05,
    )

    def loss(key, model, batch, negatives, numbers):
        return contrastive_divergence_loss(-batch.log_density, -negatives.log_density)

    gradient_fn = learning.make_gradient_fn(
        learning.JointNetwork(network),
        learning.Objective(loss=loss),
        view=lambda _, images: images,
        classified_view=lambda _, images: images,
        plan=plan,
    )

    def step(key):
        params, state = network.init(key, images_of())
        carry = learning.init_carry(
            key, plan, num_shards=1, buffer_size=8, statistics=state, smoothing=1.0
        )
        carry = jax.tree.map(lambda leaf: leaf[0], carry)
        batch = ImageData(jnp.asarray(images_of()), jnp.arange(MEMBERS) % 3)
        gradients, after, _ = gradient_fn(key, params, carry, (batch, batch))
        return (params, state), (gradients, after.statistics)

    before, after = jax.eval_shape(step, key)
    assert before == after


def test_the_same_numbers_in_every_library():
    """The same kernel by four names: one energy, one gradient."""
    kernel = np.random.default_rng(1).normal(size=(4, 1)).astype(np.float32)
    x = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)

    class Flat(nnx.Module):
        def __init__(self, rngs):
            self.dense = nnx.Linear(4, 1, rngs=rngs)

        def __call__(self, x):
            return jnp.square(self.dense(x))[:, 0]

    class One(eqx.Module):
        dense: eqx.nn.Linear

        def __init__(self, key):
            self.dense = eqx.nn.Linear(4, 1, key=key)

        def __call__(self, x):
            return jnp.square(self.dense(x))[0]

    class Lin(nn.Module):
        @nn.compact
        def __call__(self, x):
            return jnp.square(nn.Dense(1)(x))[:, 0]

    def init(key, x):
        return {"kernel": jax.random.normal(key, (x.shape[-1], 1)), "bias": jnp.zeros(1)}

    def energy(params, x):
        return jnp.square(x @ params["kernel"] + params["bias"][None])[:, 0]

    all_of_them = [
        networks.from_linen(Lin(), input_ndim=1),
        networks.from_nnx(Flat, input_ndim=1),
        networks.from_equinox(One, input_ndim=1),
        networks.from_functions(init, energy, input_ndim=1),
    ]
    gradients = []
    for network in all_of_them:
        params, state = network.init(jax.random.key(0), x)
        assert state == {}

        def total(params, network=network):
            batched, _ = network.apply(params, {}, x)
            single = jax.vmap(lambda x: network.apply(params, {}, x)[0])(x)
            return batched.sum() + single.sum()

        params = jax.tree.map(
            lambda leaf: kernel.reshape(leaf.shape) if leaf.size == 4 else 0 * leaf, params
        )
        found = jax.tree.leaves(jax.jit(jax.grad(total))(params))
        gradients.append(sorted((g.size, g.ravel()) for g in found))
    for got in gradients[1:]:
        for (_, one), (_, other) in zip(got, gradients[0], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)  # ten terms of order ten


def test_a_module_has_its_own_parameters_and_a_function_draws_them():
    keys = jax.random.key(0), jax.random.key(1)
    image = images_of()[0]
    modules = nnx.Linear(2, 3, rngs=nnx.Rngs(7)), eqx.nn.Linear(2, 3, key=jax.random.key(7))
    for network in (networks.from_nnx(modules[0]), networks.from_equinox(modules[1])):
        first, second = (network.init(key, image)[0] for key in keys)
        jax.tree.map(np.testing.assert_array_equal, first, second)
    np.testing.assert_array_equal(first["weight"], modules[1].weight)
    for network in (networks.from_nnx(Nnx), STATEFUL["equinox"]()):
        first, second = (jax.jit(network.init)(key, image)[0] for key in keys)
        names = [name for name in first if name.endswith(("0/kernel", "weight"))]
        assert any(np.abs(first[name] - second[name]).max() > 0.01 for name in names)


class LinenDropout(nn.Module):
    @nn.compact
    def __call__(self, images, train: bool = False):
        return nn.Dropout(0.5, deterministic=not train)(images).sum((1, 2, 3))


class LinenDeterministic(nn.Module):
    @nn.compact
    def __call__(self, images, deterministic: bool):
        return nn.Dropout(0.5, deterministic=deterministic)(images).sum((-3, -2, -1))


def test_an_argument_that_switches_dropout_off_does():
    network, images = networks.from_linen(LinenDeterministic()), images_of()
    plain, _ = network.apply(*network.init(jax.random.key(0), images), images, use="batch")
    np.testing.assert_allclose(plain, images.sum((-3, -2, -1)), rtol=1e-5)


class LinenOfManyArguments(nn.Module):
    @nn.compact
    def __call__(self, images, train, training, is_training, use_running_average):
        assert train == training == is_training == (not use_running_average)
        return nn.BatchNorm(use_running_average)(images).sum((-3, -2, -1))


def test_every_argument_that_may_select_the_statistics_says_the_same():
    network = networks.from_linen(LinenOfManyArguments())
    params, state = network.init(jax.random.key(0), images_of())
    _, running = network.apply(params, state, images_of(), use="running")
    _, batch = network.apply(params, state, images_of(), use="batch")
    chex.assert_trees_all_equal(running, state)
    assert float(batch["BatchNorm_0"]["mean"][0]) != float(state["BatchNorm_0"]["mean"][0])


class LinenWithoutArgument(nn.Module):
    @nn.compact
    def __call__(self, images):
        return nn.BatchNorm(use_running_average=True)(images).sum((-3, -2, -1))


class LinenCache(nn.Module):
    @nn.compact
    def __call__(self, images):
        return images.sum((-3, -2, -1)) + self.variable("cache", "seen", jnp.zeros, ()).value


def use_batch(network):
    params, state = network.init(jax.random.key(0), images_of())
    return network.apply(params, state, images_of(), use="batch")


REFUSED = {
    "linen dropout": (lambda: networks.from_linen(LinenDropout(), input_ndim=3), "random numbers"),
    "linen cache": (lambda: networks.from_linen(LinenCache()), r"variables \['cache'\]"),
    "linen statistics": (
        lambda: networks.from_linen(LinenWithoutArgument()),
        "no argument that says whether to use and update them",
    ),
    "nnx dropout": (lambda: networks.from_nnx(lambda rngs: Nnx(rngs, 0.5)), "deterministic=True"),
    "equinox dropout": (
        lambda: networks.from_equinox(
            lambda key: eqx.nn.make_with_state(Equinox)(key, is_fixed=False)
        ),
        "inference=True",
    ),
    "outputs": (
        lambda: networks.from_functions(lambda *_: {}, lambda _, x: x.sum(), input_ndim=3),
        r"one output an example, shape \(4, \.\.\.\) for 4 examples, got \(\)",
    ),
    "axes": (
        lambda: networks.from_functions(lambda *_: {}, lambda _, x: x, input_ndim=5),
        r"\(\.\.\., 5 axes of an example\), got \(4, 6, 6, 1\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_energy_can_be_is_refused_with_a_reason(case):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda: use_batch(make()))


@pytest.mark.parametrize("adapter", ["from_nnx", "from_equinox"])
def test_other_things_are_refused(adapter):
    adapter = getattr(networks, adapter)
    with pytest.raises(TypeError, match=r"network must be .* got a int"):
        adapter(3)
    with pytest.raises(TypeError, match=r"must return an .*Module, got a "):
        adapter(lambda _: 3)
    with pytest.raises(TypeError, match=r"got function; there are also.*from_functions\("):
        networks.from_linen(lambda images: images)
    with pytest.raises(ValueError, match="use must be 'running' or 'batch', got use='eval'"):
        networks.from_linen(LinenDeterministic()).apply({}, {}, images_of(), use="eval")


def test_equinox_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "equinox", None)
    with pytest.raises(ImportError, match="pip install equinox"):
        networks.from_equinox(lambda key: None)


class Flat(nn.Module):
    """A network that knows nothing of statistics."""

    @nn.compact
    def __call__(self, images):
        return nn.Dense(3)(images.reshape(*images.shape[:-3], -1))


def assert_equal(first, second):
    jax.tree.map(np.testing.assert_array_equal, first, second)


class HeadAlone(Flat):
    """A method called as the second part of a network is, where there is no first."""

    def head(self, features):
        return features


@pytest.mark.parametrize("network", [Flat(), HeadAlone()], ids=["plain", "head"])
def test_a_network_without_statistics_has_one_use_and_no_split(network):
    images = images_of()
    made = networks.from_linen(network)
    params, statistics = made.init(jax.random.key(0), images)
    assert statistics == {}
    assert made.first_layer is None
    assert made.head is None
    expected = network.apply({"params": params}, images)
    for use in ("running", "batch"):
        assert_equal(made.apply(params, {}, images, use=use, batch_axis="chains"), (expected, {}))
    half = images.astype(jnp.bfloat16)
    assert (
        networks.from_linen(nn.Dense(3, dtype=jnp.bfloat16))
        .apply({"kernel": np.ones((1, 3)), "bias": np.ones(3)}, {}, half)[0]
        .dtype
        == jnp.float32
    )


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
    made, images = networks.from_linen(OwnNorm()), images_of()
    params, statistics = made.init(jax.random.key(0), images)
    one = functools.partial(made.apply, params, statistics, use="batch", batch_axis="chains")
    alone, centre = jax.vmap(one, axis_name="chains", out_axes=(0, None))(images)
    together, expected = made.apply(params, statistics, images, use="batch")
    # Sums of 36 and means of 144 terms of order one.
    np.testing.assert_allclose(alone, together, atol=1e-4)
    np.testing.assert_allclose(centre["centre"], expected["centre"], atol=1e-6)
