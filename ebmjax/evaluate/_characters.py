"""Features of a fixed network of characters, by which tiny images of any set compare."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import unflatten_dict

from ebmjax import networks
from ebmjax.types import PyTree

SIDE = 28
FILE = Path(__file__).parent / "weights" / "characters.npz"


def make_network(num_classes: int) -> Any:
    """Returns the network, of 175,000 parameters and 64 features."""
    return networks.WideResNet(16, 1, num_classes)


def characters(images: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns features (N, 64) and class probabilities of uint8 images (N, H, W, C).

    The network ships with this package, so FIDs of one set compare between runs and machines. It
    classifies MNIST's digits, letters and signs; experiments/train_characters.py trained it.
    Images become grey, the mean of their channels, and 28x28 by linear interpolation, whatever
    their sides. So the features know no hue: judge colours by other features, too.

    Example:
      ``ebmjax run --config=joint --config.evals.extractor=ebmjax.evaluate:characters``, or
      ``evaluate.own_extractor(evaluate.characters)``.
    """
    features, probabilities = _outputs(_load(), jnp.asarray(images))
    return np.asarray(features), np.asarray(probabilities)


@cache
def _load() -> PyTree:
    tensors = networks.read_tensors(FILE)
    return unflatten_dict({name: np.float32(one) for name, one in tensors.items()}, sep="/")


@jax.jit
def _outputs(params: PyTree, images: jax.Array) -> tuple[jax.Array, jax.Array]:
    network = make_network(len(params["Dense_0"]["bias"]))
    apply = partial(network.apply, {"params": params})
    x = to_grey(images)
    return apply(x, method="features"), jax.nn.softmax(apply(x))


def to_grey(images: jax.Array) -> jax.Array:
    """Returns what the network sees: (N, 28, 28, 1) in [-1, 1]."""
    grey = images.astype(jnp.float32).mean(axis=-1, keepdims=True) / 127.5 - 1.0
    return jax.image.resize(grey, (len(grey), SIDE, SIDE, 1), "linear")
