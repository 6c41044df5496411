"""Extractors of the features that judge generated images."""

import contextlib
import hashlib
import inspect
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from ebmjax import data, losses, metrics, networks, training
from ebmjax._phases import phase
from ebmjax.networks import WideResNet
from ebmjax.types import Key, Metrics, PyTree

MIN_CLASSES = 5
"""Classes below which a classifier keeps too little of an image for its features to judge by."""
SIDES = (8, 16)
"""Sides of the packaged digits for which the package ships an extractor."""
WEIGHTS = Path(__file__).parent / "weights"
CACHE = Path.home() / ".cache" / "ebmjax" / "extractors"
# Part of every number's definition: other settings make another extractor.
SETTINGS = {
    "depth": 10,
    "widen_factor": 1,
    "num_epochs": 25,
    "max_steps": 600,
    "batch_size": 64,
    "learning_rate": 2e-3,
    "seed": 0,
}


class Extractor(NamedTuple):
    """Extractor of the features by which generated images are judged.

    Attributes:
      name: its name in reports, figures and tables.
      outputs_fn: uint8 images (N, H, W, C) to features (N, d) and class probabilities, or None
        where the features know no classes.
      details: settings behind the numbers, for JSON.
      is_host: whether ``outputs_fn`` is called batch by batch and not traced.
    """

    name: str
    outputs_fn: Callable[[Any], tuple[jax.Array, jax.Array | None]]
    details: dict[str, Any]
    is_host: bool = False


def inception(path: str | Path, sha256: str = "") -> Extractor:
    """Returns the FID Inception-v3, from a local file.

    Args:
      path: of the weights, see ``networks.load_inception``.
      sha256: of the file; "" for unchecked.

    Raises:
      OSError, ValueError: if the file cannot be read or has another hash.
    """
    file = Path(path).expanduser()
    inception_fn = networks.load_inception(file, sha256 or None)

    def outputs(images: Any) -> tuple[jax.Array, jax.Array]:
        found = inception_fn(images)
        return found.features, jax.nn.softmax(found.logits)

    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Extractor("inception_v3", outputs, {"weights": file.name, "sha256": digest})


def digits_features(side: int) -> Extractor:
    """Returns the extractor of the packaged digits, whose weights ship with this package.

    It is a classifier of the 1,440 training images, the same on all machines and in all versions.
    Its weights were made once: other weights are another extractor.

    Args:
      side: of the images in pixels, 8 or 16.
    """
    if side not in SIDES:
        raise ValueError(
            f"side must be one of {SIDES}, of which the package has weights, got {side=}. "
            "own_classifier trains one for other images."
        )
    tensors = networks.read_tensors(WEIGHTS / f"digits_{side}.npz")
    accuracy = float(tensors.pop("test_accuracy"))
    params = jax.tree.map(np.float32, unflatten_dict(tensors, sep="/"))
    details = {"side": side, "digest": training.tree_digest(params), "test_accuracy": accuracy}
    return Extractor("digits_features", partial(_outputs, _network(10), params), details)


def random_features() -> Extractor:
    """Returns an extractor whose network is random, the same for all data and on all machines.

    Stages of a 3x3 convolution with 64 channels, an absolute value and a mean over 2x2 pixels
    follow each other until a side has four pixels or fewer. A last mean over 2x2 pixels and a
    random projection make 64 features. Absolute values are what tells images from Gaussians with
    the same covariance. It has no classes, so no inception score. The images' shape decides the
    number of stages, so numbers compare within one shape only.

    Source: random networks as extractors where ImageNet's do not fit: Naeem et al. 2020, "Reliable
    Fidelity and Diversity Metrics". Absolute values and means: scattering, Bruna & Mallat 2013.

    Example:
      >>> features, probabilities = random_features().outputs_fn(np.zeros((2, 8, 8, 1), np.uint8))
      >>> features.shape, probabilities
      ((2, 64), None)
    """

    def outputs(images: Any) -> tuple[jax.Array, None]:
        return _random_features(jnp.asarray(images)), None

    return Extractor("random_features", outputs, {"seed": 0})


@jax.jit
def _random_features(images: jax.Array) -> jax.Array:
    # RandomState, whose stream NumPy never changes, which it may for newer generators.
    rng, highest = np.random.RandomState(0), jax.lax.Precision.HIGHEST

    def weights(*shape: int) -> jax.Array:
        fan_in = int(np.prod(shape[:-1]))
        return jnp.asarray(rng.standard_normal(shape) * np.sqrt(2.0 / fan_in), jnp.float32)

    x = images.astype(jnp.float32) / 127.5 - 1.0
    while True:
        kernel, bias = weights(3, 3, x.shape[-1], 64), rng.standard_normal((1, 1, 1, 64))
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=layout, precision=highest
        )
        x = _pool_pixels(jnp.abs(x + jnp.asarray(0.3 * bias, jnp.float32)))
        if min(x.shape[1:3]) <= 2:
            break
    flat = x.reshape(len(x), -1)
    projection = weights(flat.shape[1], 64) / jnp.float32(np.sqrt(2.0))
    return 4.0 * jnp.matmul(flat, projection, precision=highest)


def _pool_pixels(x: jax.Array) -> jax.Array:
    """Returns means over 2x2 pixels; a last odd row or column is left out, a single one stays."""
    n, height, width, channels = x.shape
    down, across = min(2, height), min(2, width)
    x = x[:, : height // down * down, : width // across * across]
    return x.reshape(n, height // down, down, width // across, across, channels).mean((2, 4))


def own_classifier(train: data.ImageData, test: data.ImageData, num_classes: int) -> Extractor:
    """Returns an extractor: pooled features of a small classifier trained on ``train``.

    It is the same for every model of the same images, whatever the settings and seed. It trains in
    about a minute, once: ``~/.cache/ebmjax/extractors`` keeps it. A line on stderr says so.

    Args:
      train: labelled images.
      test: labelled images to report its accuracy on.
      num_classes: at least 5; labels are 0, ..., num_classes - 1. Few classes leave features that
        know too little of an image: see ``random_features``.
    """
    if num_classes < MIN_CLASSES:
        raise ValueError(
            f"num_classes must be at least {MIN_CLASSES}, so that the features know enough of an "
            f"image, got {num_classes=}. Take evaluate.random_features() instead."
        )
    train, test = (data.check_image_data(split, num_classes) for split in (train, test))
    network = _network(num_classes)
    digest = _digest(train, num_classes)
    path = CACHE / f"{digest}.npz"
    try:
        params = unflatten_dict(networks.read_tensors(path), sep="/")
    except (OSError, ValueError):
        params = _train(network, train)
        _keep(path, dict(flatten_dict(params, sep="/")))
    outputs_fn = partial(_outputs, network, params)
    _, probabilities = metrics.extract_in_batches(outputs_fn, test.images, 500)
    details = {
        **SETTINGS,
        "digest": digest,
        "test_accuracy": float(np.mean(np.argmax(probabilities, axis=1) == test.labels)),
    }
    return Extractor("classifier_features", outputs_fn, details)


def own_extractor(function: Callable[[np.ndarray], Any]) -> Extractor:
    """Returns an extractor of your function, written in JAX, PyTorch or anything else.

    Args:
      function: uint8 images (N, H, W, C) to finite features (N, d), or to a pair of features and
        class probabilities (N, classes). It is called with batches, and not traced.

    Returns:
      An ``Extractor`` with the function's name, and the digest of its file among the details.

    Example:
      >>> def pixels(images):
      ...     return images.reshape(len(images), -1) / 255
      >>> found = own_extractor(pixels)
      >>> found.name, found.outputs_fn(np.zeros((3, 2, 2, 1), np.uint8))[0].shape
      ('pixels', (3, 4))
    """

    def outputs(images: Any) -> tuple[Any, Any]:
        found = function(np.asarray(images))
        features, probabilities = found if isinstance(found, tuple) else (found, None)
        features = np.asarray(features)
        if features.ndim != 2 or len(features) != len(images) or not np.isfinite(features).all():
            raise ValueError(
                f"an extractor must return finite features of shape ({len(images)}, d), a row an "
                f"image, got shape {features.shape}. Take features.reshape(len(images), -1)."
            )
        return features, None if probabilities is None else np.asarray(probabilities)

    name, digest = getattr(function, "__name__", type(function).__name__), ""
    with contextlib.suppress(TypeError, OSError):  # it may have no file
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes()
        digest = hashlib.sha256(source + name.encode()).hexdigest()
    return Extractor(name, outputs, {"digest": digest}, is_host=True)


def _network(num_classes: int) -> Any:
    return WideResNet(SETTINGS["depth"], SETTINGS["widen_factor"], num_classes)


@partial(jax.jit, static_argnums=0)
def _outputs(network: Any, params: PyTree, images: Any) -> tuple[jax.Array, jax.Array]:
    variables, x = {"params": params}, data.to_signed_unit(jnp.asarray(images))
    features = network.apply(variables, x, method="features")
    return features, jax.nn.softmax(network.apply(variables, x))


def _digest(train: data.ImageData, num_classes: int) -> str:
    decisive = {
        "data": training.tree_digest(tuple(train)),
        "settings": SETTINGS | {"num_classes": num_classes},
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def _train(network: Any, train: data.ImageData) -> PyTree:
    classifier = networks.from_linen(network)
    key = jax.random.key(SETTINGS["seed"])
    batch_size = min(SETTINGS["batch_size"], len(train.images))
    steps_per_epoch = len(train.images) // batch_size
    total_steps = min(SETTINGS["num_epochs"] * steps_per_epoch, SETTINGS["max_steps"])

    def gradient_fn(key: Key, params: PyTree, shard: PyTree, batch: Any) -> Any:
        del key

        def loss_fn(params: PyTree) -> tuple[jax.Array, Metrics]:
            logits, _ = classifier.apply(params, {}, data.to_signed_unit(batch.images))
            return losses.cross_entropy_loss(logits, batch.labels)

        (loss, found), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
        return gradients, shard, {"loss": loss, **found}

    optimizer = optax.adam(optax.cosine_decay_schedule(SETTINGS["learning_rate"], total_steps))
    params, _ = jax.jit(classifier.init)(key, data.to_signed_unit(jnp.asarray(train.images[:2])))
    plan = training.Plan(
        total_steps=total_steps,
        batch_size=batch_size,
        steps_per_dispatch=min(50, total_steps),
        log_every=total_steps,
    )
    about = f"{total_steps} steps on {len(train.images):,} images, once for this data; "
    about += "in a run, --config.evals.samples.every=never does without"
    with phase(f"training the classifier whose features FID compares: {about}", default="stderr"):
        result = training.fit(
            key,
            training.init_state(params, optimizer),
            training.make_train_step(gradient_fn, optimizer),
            train,
            plan,
            devices=jax.local_devices()[:1],  # the same numbers on every device
            signals=False,
        )
    return jax.device_get(result.state.params)


def _keep(path: Path, tensors: dict[str, Any]) -> None:
    """Writes tensors whole or not at all. Without a cache, the next run makes them again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            np.savez(file := Path(folder) / path.name, **tensors)
            file.replace(path)
