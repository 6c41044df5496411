"""Tiny joint energy models with closed forms, shared by the tests of their training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from training_problems import settled

from ebmjax import learning
from ebmjax.data import ImageData, to_signed_unit
from ebmjax.learning import ChainKind, ChainPlan, JointNetwork, Objective, init_carry
from ebmjax.losses import contrastive_divergence_loss
from ebmjax.networks import Network, NormPolicy
from ebmjax.samplers import sgld
from ebmjax.training import init_state

EPS = np.finfo(np.float32).eps
SHAPE = (2, 2, 1)
DIM, NUM_CLASSES = 4, 3


def quadratic_logits(params, statistics, images, *, use="running", batch_axis=None):
    """Each class a Gaussian: logit y is bias_y - precision_y |x - mean_y|^2 / 2."""
    del use, batch_axis
    x = images.reshape(*images.shape[:-3], 1, DIM)
    means = params["mean"].reshape((1,) * (x.ndim - 2) + params["mean"].shape)
    squares = jnp.sum((x - means) ** 2, axis=-1)

    def fit(leaf):
        return leaf.reshape((1,) * (squares.ndim - 1) + leaf.shape)

    return fit(params["bias"]) - 0.5 * fit(jnp.exp(params["log_precision"])) * squares, statistics


def centred_logits(params, statistics, images, *, use="running", batch_axis=None):
    """The same of images less their batch's mean image, or less its running average."""
    centre, new = statistics["centre"], statistics
    if use == "batch":
        centre = jnp.mean(images.reshape(-1, *SHAPE), axis=0)
        if batch_axis is not None:
            centre = jax.lax.pmean(centre, batch_axis)
        new = {"centre": 0.1 * statistics["centre"] + 0.9 * centre}
    centre = centre.reshape((1,) * (images.ndim - 3) + SHAPE)
    return quadratic_logits(params, {}, images - centre)[0], new


def quadratic_params():
    rng = np.random.default_rng(0)
    return {
        "mean": jnp.asarray(0.4 * rng.normal(size=(NUM_CLASSES, DIM)), jnp.float32),
        "log_precision": jnp.asarray(0.3 * rng.normal(size=NUM_CLASSES), jnp.float32),
        "bias": jnp.asarray(0.5 * rng.normal(size=NUM_CLASSES), jnp.float32),
    }


def quadratic(statistics=None):
    """A ``Network`` of class densities that are Gaussian."""
    return Network(lambda key, images: (quadratic_params(), statistics or {}), quadratic_logits)


def centred():
    """A ``Network`` with running statistics, coupled by its batch as batch norm couples."""
    statistics = {"centre": jnp.full(SHAPE, 0.05)}
    return Network(lambda key, images: (quadratic_params(), statistics), centred_logits)


def logits_by_hand(params, x):
    """float64 (N, classes) of rows (N, DIM)."""
    p = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    offsets = np.asarray(x, np.float64)[:, None] - p["mean"]
    return p["bias"] - 0.5 * np.exp(p["log_precision"]) * np.sum(offsets**2, axis=-1)


def softmax_by_hand(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def gradient_by_hand(params, x, weights):
    """Gradient of ``sum_ny weights_ny logit_y(x_n)``, in float64."""
    p = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    offsets = np.asarray(x, np.float64)[:, None] - p["mean"]
    precision = np.exp(p["log_precision"])
    squares = np.sum(offsets**2, axis=-1)
    return {
        "mean": precision[:, None] * np.sum(weights[..., None] * offsets, axis=0),
        "log_precision": -0.5 * precision * np.sum(weights * squares, axis=0),
        "bias": np.sum(weights, axis=0),
    }


def image_data(seed=1, num=24):
    """uint8 images and labels that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, size=(num, *SHAPE)).astype(np.uint8)
    return ImageData(images, rng.integers(0, NUM_CLASSES, size=num).astype(np.int32))


def plain_view(key, images):
    del key
    return to_signed_unit(images)


def rows(images):
    """uint8 images as float64 rows of what ``plain_view`` shows."""
    return np.asarray(images, np.float64).reshape(len(images), -1) / 127.5 - 1.0


def cd_loss(positive, negative, smoothing):
    return contrastive_divergence_loss(-positive / smoothing, -negative / smoothing)


def class_start(key, label):
    """A start that depends on the class alone, so that its chain is known."""
    del key
    return jnp.full(SHAPE, 0.1) * (1.0 + label)


NOISELESS = functools.partial(sgld, step_size=0.2, noise_scale=0.0)


def negatives(**options):
    """Eight chains of three steps without noise, all from a buffer of their size."""
    given = {
        "num_samples": 8,
        "start_fn": lambda key, label: jax.random.uniform(key, SHAPE, minval=-1.0, maxval=1.0),
        "reinit_prob": 0.0,
    }
    return ChainPlan(kinds={"only": kind(options)}, **(given | options))


def kind(options):
    """A ``ChainKind`` of those ``options`` that are its own, which are taken out."""
    given = {"sampler": NOISELESS, "num_steps": 3}
    own = {name: options.pop(name) for name in KIND_FIELDS if name in options}
    return ChainKind(**(given | own))


KIND_FIELDS = ("sampler", "num_steps", "is_interacting", "axis_name")


def shard_of(classifier, negatives, *, buffer_size=8, smoothing=1.0):
    """The state of one logical shard, without the axis of shards."""
    statistics = classifier.init(jax.random.key(0), None)[1]
    shards = init_carry(
        jax.random.key(0),
        negatives,
        num_shards=1,
        buffer_size=buffer_size,
        statistics=statistics,
        smoothing=smoothing,
    )
    return jax.tree.map(lambda leaf: leaf[0], shards)


def make_gradient_fn(
    classifier,
    negatives,
    objective=None,
    *,
    classified_view=plain_view,
    positive_view=plain_view,
    chain_classifier=None,
    norm_policy=None,
):
    objective, is_conditional = objective or joint_objective()
    policy = norm_policy or NormPolicy()
    gradient_fn = learning.make_gradient_fn(
        JointNetwork(classifier, chain_classifier, policy, is_conditional),
        objective,
        view=positive_view,
        classified_view=classified_view,
        plan=negatives,
    )
    followed = settled(gradient_fn)
    followed.check_data = gradient_fn.check_data
    return followed


def joint_objective(*, generative_loss=cd_loss, is_conditional=False, density_scale=1.0, **options):
    """(objective, whether it is conditional), by a loss of f of data and negatives."""

    def loss(key, model, batch, negatives, numbers):
        del key, model
        return generative_loss(batch.f, negatives.f, numbers["smoothing"])

    given = {"loss": loss, "density_scale": lambda numbers: density_scale}
    return Objective(**(given | options)), is_conditional


def batch():
    """(labelled, unlabelled) ``ImageData``, six and five examples."""
    images, labels = map(jnp.asarray, image_data())
    return ImageData(images[:6], labels[:6]), ImageData(images[10:15], labels[10:15])


def buffer_rows(carry):
    positions = np.asarray(carry.buffer.positions)
    return positions.reshape(len(positions), -1)


KEY = jax.random.key(2)
PARAMS = quadratic_params()
ONE_HOT = np.eye(NUM_CLASSES)
# Entries below 10 (images within 1, means within 2, precisions below 2, biases below 2), through
# about 50 float32 operations, sums of up to 8 x 4 terms included, each off by one rounding.
ATOL = float(50 * 10 * EPS)


def run(objective=None, draw=None, *, classifier=None, carry=None, params=PARAMS, **options):
    """(gradients, carry, metrics), and the shard the step started from."""
    classifier = classifier or quadratic()
    draw = draw or negatives()
    carry = carry or shard_of(classifier, draw)
    gradient_fn = jax.jit(make_gradient_fn(classifier, draw, objective, **options))
    return gradient_fn(KEY, params, carry, batch()), carry


plain_run = functools.cache(run)


def assert_trees_close(got, expected, atol=ATOL):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), got, expected)


def added(*trees):
    return jax.tree.map(lambda *leaves: sum(leaves), *trees)


def classification_gradient(params, weight=1.0):
    labelled, _ = batch()
    x = rows(labelled.images)
    weights = softmax_by_hand(logits_by_hand(params, x)) - ONE_HOT[np.asarray(labelled.labels)]
    return gradient_by_hand(params, x, weight * weights / len(x))


def density_gradient(params, x, weights):
    """Gradient of the weighted sum of f(x)."""
    share = softmax_by_hand(logits_by_hand(params, x))
    return gradient_by_hand(params, x, np.asarray(weights)[:, None] * share)


def generative_gradient(params, ends, weight=1.0):
    """Gradient of contrastive divergence with the ends of the chains held fixed."""
    x = rows(batch()[1].images)
    return added(
        density_gradient(params, x, np.full(len(x), -weight / len(x))),
        density_gradient(params, ends, np.full(len(ends), weight / len(ends))),
    )


def trainable(network, draw, objective, optimizer, *, num_shards, buffer_size, params=None, **more):
    """(state, gradient_fn) of a joint energy model."""
    initial, statistics = jax.jit(network.init)(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))
    sizes = {"num_shards": num_shards, "buffer_size": buffer_size}
    carry = {"statistics": statistics, "smoothing": 1.0}
    shards = init_carry(jax.random.key(1), draw, **sizes, **carry)
    gradient_fn = make_gradient_fn(network, draw, objective, **more)
    state = init_state(params or initial, optimizer, shards)
    return state, gradient_fn
