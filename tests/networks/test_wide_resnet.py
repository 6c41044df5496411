"""The wide residual network and its normalisation, against the formulas written out in NumPy.

Bodies are computed in float64, where their rounding is negligible; what is left is the last,
float32 product of n terms, off by at most (n + 2) eps times the product of absolute values.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ebmjax.networks import SADA_JEM_POLICY, NormPolicy, WideResNet

EPS = float(jnp.finfo(jnp.float32).eps)
# Rounding of a float64 body, amplified a million times on its way.
TINY = 1e6 * float(jnp.finfo(jnp.float64).eps)


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


def images_of(shape=(4, 6, 6, 1), seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


@functools.cache
def variables_of(norm="batch", seed=1, depth=10):
    """Variables of a WRN-10-1 with 3 classes: no entry at its start, variances positive."""
    network = WideResNet(depth, 1, 3, norm)
    variables = jax.jit(network.init)(jax.random.key(0), jnp.zeros((1, 6, 6, 1)))
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: (leaf + 0.2 * np.abs(rng.normal(size=leaf.shape))).astype(np.float32),
        variables,
    )


def at(tree, path):
    for name in path:
        tree = tree[name]
    return tree


class WrittenOut:
    """A wide ResNet in NumPy's float64, its convolutions aside; keeps each layer's new averages."""

    def __init__(self, variables, norm="batch", statistics="running", blocks=1):
        self.params, self.averages = variables["params"], variables.get("batch_stats")
        self.norm, self.statistics, self.blocks, self.updated = norm, statistics, blocks, {}

    def convolution(self, layer, x, stride=1):
        kernel = np.asarray(layer["kernel"], np.float64)
        dimensions = ("NHWC", "HWIO", "NHWC")
        out = lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=dimensions
        )
        return np.asarray(out) + np.asarray(layer["bias"])[None, None, None]

    def activate(self, x, index, *scope):
        if self.norm is None:
            return leaky(x)
        path = (*scope, f"{self.norm.title()}Norm_{index}")
        params = at(self.params, path)
        if self.norm == "group":
            grouped = x.reshape(*x.shape[:3], 8, -1)
            mean, variance = (f(grouped, (1, 2, 4), keepdims=True) for f in (np.mean, np.var))
            x = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
        else:
            old = at(self.averages, path)
            mean, variance = old["mean"], old["var"]
            if self.statistics == "batch":
                mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
                self.updated[path] = {
                    # PyTorch's momentum 0.9, the biased variance.
                    "mean": 0.1 * np.float64(old["mean"]) + 0.9 * mean,
                    "var": 0.1 * np.float64(old["var"]) + 0.9 * variance,
                }
            x = (x - mean[None, None, None]) / np.sqrt(variance + 1e-5)[None, None, None]
        return leaky(x * params["scale"][None, None, None] + params["bias"][None, None, None])

    def logits(self, images):
        """The logits and the bound on their float32 rounding."""
        x = self.convolution(self.params["Convolution_0"], np.float64(images))
        for index in range(3 * self.blocks):
            name, stride = f"ResidualBlock_{index}", 1 + (index in (self.blocks, 2 * self.blocks))
            block = self.params[name]
            y = self.convolution(block["Convolution_0"], self.activate(x, 0, name))
            y = self.convolution(block["Convolution_1"], self.activate(y, 1, name), stride)
            x = y + (self.convolution(block["shortcut"], x, stride) if "shortcut" in block else x)
        features = self.activate(x, 0).mean((1, 2))
        kernel, bias = (np.float64(self.params["Dense_0"][n]) for n in ("kernel", "bias"))
        bound = np.abs(features) @ np.abs(kernel) + np.abs(bias)[None]
        return features @ kernel + bias[None], 2 * (len(kernel) + 2) * EPS * bound


def apply_batch(network, variables, images):
    """Logits by the images' own statistics, and the updated averages."""
    logits, updated = network.apply(variables, images, statistics="batch", mutable=["batch_stats"])
    return logits, updated["batch_stats"]


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
def test_it_equals_its_definition(depth, widen_factor, norm, lowering, shape):
    images = images_of((3, *shape))
    with jax.enable_x64(True):
        network = WideResNet(depth, widen_factor, 4, norm, lowering, jnp.float64)
        start = jax.jit(network.init)(jax.random.key(0), images)
        rng = np.random.default_rng(0)
        variables = jax.tree.map(
            lambda leaf: np.float32(leaf + 0.1 * rng.normal(size=leaf.shape)), start
        )
        expected, bound = WrittenOut(variables, norm, blocks=(depth - 4) // 6).logits(images)
        logits = jax.jit(network.apply)(variables, images)
        assert logits.dtype == jnp.float32
        np.testing.assert_array_less(np.abs(logits - expected), bound)


def test_wide_resnet_parameter_count():
    def block(i, o):
        return 9 * i * o + o + 9 * o * o + o + (i * o + o if i != o else 0)

    stages = [block(i, o) + 3 * block(o, o) for i, o in [(16, 160), (160, 320), (320, 640)]]
    by_hand = (9 * 3 * 16 + 16) + sum(stages) + (640 * 10 + 10)
    images = jnp.zeros((32, 32, 3))
    params = jax.eval_shape(WideResNet(28, 10, 10).init, jax.random.key(0), images)
    assert sum(x.size for x in jax.tree.leaves(params)) == by_hand == 36_471_338

    grouped = jax.eval_shape(WideResNet(28, 10, 10, "group").init, jax.random.key(0), images)
    per_stage = [2 * (i + 7 * o) for i, o in [(16, 160), (160, 320), (320, 640)]]
    assert sum(x.size for x in jax.tree.leaves(grouped)) == by_hand + sum(per_stage) + 2 * 640


@pytest.mark.slow
@pytest.mark.parametrize(("statistics", "depth"), [("running", 10), ("batch", 10), ("batch", 22)])
def test_batch_normalisation_equals_its_definition(statistics, depth):
    images, variables = images_of(), variables_of(depth=depth)
    with jax.enable_x64(True):
        network = WideResNet(depth, 1, 3, "batch", dtype=jnp.float64)
        reference = WrittenOut(variables, statistics=statistics, blocks=(depth - 4) // 6)
        expected, bound = reference.logits(images)
        if statistics == "running":
            logits = jax.jit(network.apply)(variables, images)
        else:
            logits, updated = jax.jit(functools.partial(apply_batch, network))(variables, images)
            assert len(reference.updated) == depth - 3
            for path, averages in reference.updated.items():
                for name, value in averages.items():
                    error = np.abs(at(updated, path)[name] - value)
                    # The old averages are float32, and so is a tenth of them.
                    tenth = 0.1 * np.abs(at(variables["batch_stats"], path)[name])
                    np.testing.assert_array_less(error, TINY + 2 * EPS * tenth, str(path))
        assert logits.dtype == jnp.float32
        np.testing.assert_array_less(np.abs(logits - expected), bound)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [("chains",), ("shards", "chains")])
def test_single_images_of_a_named_axis_are_normalised_as_their_batch(axes):
    images, variables = images_of(), variables_of()
    with jax.enable_x64(True):
        network = WideResNet(10, 1, 3, "batch", dtype=jnp.float64)
        _, bound = WrittenOut(variables, statistics="batch").logits(images)
        whole, whole_averages = jax.jit(functools.partial(apply_batch, network))(variables, images)

        mapped = functools.partial(apply_batch, network.clone(batch_axis=axes), variables)
        for name in reversed(axes):
            mapped = jax.vmap(mapped, axis_name=name, out_axes=(0, None))
        nested = images if len(axes) == 1 else images.reshape(2, 2, 6, 6, 1)
        logits, averages = jax.jit(mapped)(nested)
        difference = np.abs(logits.reshape(4, 3) - whole)
        np.testing.assert_array_less(difference, 2 * bound)
        close = functools.partial(np.testing.assert_allclose, rtol=0, atol=TINY)
        jax.tree.map(close, averages, whole_averages)


def test_an_image_depends_on_its_neighbours_only_under_batch_statistics():
    images, variables = images_of(), variables_of()
    others = np.concatenate([images[:1], -images[1:]])
    network = WideResNet(10, 1, 3, "batch")
    running = jax.jit(network.apply)
    np.testing.assert_array_equal(running(variables, images)[0], running(variables, others)[0])
    batch = jax.jit(functools.partial(apply_batch, network))
    change = batch(variables, images)[0][0] - batch(variables, others)[0][0]
    assert np.abs(change).max() > 0.01


def test_bfloat16_keeps_statistics_and_logits_in_float32():
    network = WideResNet(10, 1, 3, "batch", dtype=jnp.bfloat16)
    variables = variables_of()
    hidden = network.apply(variables, images_of((16, 6, 6, 1)), method="first_layer")
    assert hidden.dtype == jnp.bfloat16
    head = functools.partial(
        network.apply, statistics="batch", method="head", mutable=["batch_stats"]
    )
    logits, updated = jax.jit(head)(variables, hidden)
    assert {leaf.dtype for leaf in jax.tree.leaves((logits, updated))} == {jnp.dtype("float32")}

    path = ("ResidualBlock_0", "BatchNorm_0")
    x = np.asarray(hidden, np.float64).reshape(-1, 16)
    old = at(variables["batch_stats"], path)
    new = at(updated["batch_stats"], path)
    # Sums of n float32 terms; a single rounding to bfloat16 would be 2^-8 of the value.
    terms = (len(x) + 5) * EPS
    error = np.abs(new["mean"] - (0.1 * old["mean"] + 0.9 * x.mean(0)))
    np.testing.assert_array_less(error, terms * (np.abs(x).mean(0) + np.abs(old["mean"])))


@pytest.mark.slow
@pytest.mark.parametrize("norm", [None, "batch"])
def test_the_network_is_its_head_after_its_first_layer(norm):
    images, variables = images_of(), variables_of(norm)
    network = WideResNet(10, 1, 3, norm)

    def split(variables, images):
        hidden = network.apply(variables, images, method="first_layer")
        return network.apply(variables, hidden, method="head")

    logits = jax.jit(split)(variables, images)
    np.testing.assert_array_equal(logits, jax.jit(network.apply)(variables, images))


def test_a_policy_says_who_uses_and_who_updates_what():
    roles = ("classified", "positives", "negatives", "chains")

    def table(policy):
        uses = [getattr(policy, role) for role in roles]
        return uses, [role in policy.updated_by for role in roles]

    assert table(NormPolicy()) == (["batch"] * 4, [True, True, False, False])
    apart = NormPolicy(chains="running")
    assert table(apart) == (["batch"] * 3 + ["running"], [True, True, False, False])
    assert table(SADA_JEM_POLICY) == (["batch"] * 4, [True] * 4)
    every = dict.fromkeys(("positives", "negatives", "chains"), "running")
    labels = NormPolicy(**every, updated_by=("classified",))
    assert table(labels) == (["batch"] + ["running"] * 3, [True, False, False, False])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positives": "eval"}, "positives must be 'running' or 'batch'"),
        ({"updated_by": ("sam",)}, "role must be one of .* got role='sam'"),
        ({"chains": "running", "updated_by": ("chains",)}, "set chains='batch' or"),
    ],
)
def test_bad_choices_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        NormPolicy(**options)
    with pytest.raises(ValueError, match="statistics must be 'running' or 'batch', got statistics"):
        WideResNet(10, 1, 3).apply(variables_of(None), images_of(), statistics="eval")


@pytest.mark.parametrize(
    ("norm", "statistics"), [(None, "running"), ("batch", "running"), ("batch", "batch")]
)
def test_the_logits_are_the_linear_layer_of_the_features(norm, statistics):
    images, variables = images_of(), variables_of(norm)
    network = WideResNet(10, 1, 3, norm)

    def both(variables, images):
        use = functools.partial(
            network.apply, variables, images, statistics=statistics, mutable=["batch_stats"]
        )
        return use(method="features")[0], use()[0]

    features, logits = jax.jit(both)(variables, images)
    assert features.shape == (4, 64)
    assert features.dtype == jnp.float32
    kernel, bias = (np.float64(variables["params"]["Dense_0"][k]) for k in ("kernel", "bias"))
    sizes = np.abs(features) @ np.abs(kernel) + np.abs(bias)[None]
    error = np.abs(logits - (features @ kernel + bias[None]))
    np.testing.assert_array_less(error, (len(kernel) + 2) * EPS * sizes)
