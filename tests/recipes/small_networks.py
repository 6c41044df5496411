"""Networks that compile soon, in place of those that the families name."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import networks
from ebmjax.evaluate import Extractor
from ebmjax.networks._convolution import Convolution
from ebmjax.recipes.config.families import DIGITS, OWN_CLASSIFIER


class ShallowResNet(networks.WideResNet):
    """A ``WideResNet`` without residual blocks: the same arguments, checks and methods."""

    def setup(self):
        self.Convolution_0 = Convolution(16, lowering=self.lowering, dtype=self.dtype)
        self.ResidualBlock = []
        self.Dense_0 = nn.Dense(self.num_classes)


def digits_projected(side):
    """A stand-in for ``evaluate.digits_features``."""
    return projected(DIGITS, 10)


def classifier_projected(train, test, num_classes):
    """A stand-in for ``evaluate.own_classifier``."""
    assert train.images.shape[1:] == test.images.shape[1:]
    return projected(OWN_CLASSIFIER, num_classes)


def projected(name, num_classes):
    """An extractor of 16 fixed projections, with nothing learnt and nothing to compile."""

    def outputs(images):
        flat = jnp.reshape(jnp.asarray(images, jnp.float32), (len(images), -1)) / 127.5 - 1.0
        shape = (flat.shape[1], 16 + num_classes)
        weights = np.random.default_rng(0).normal(size=shape) / np.sqrt(shape[0])
        found = flat @ weights.astype(np.float32)
        return found[:, :16], jax.nn.softmax(found[:, 16:])

    return Extractor(name, outputs, {"digest": "none", "test_accuracy": 0.1})
