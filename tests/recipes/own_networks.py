"""Networks as a user writes them, for ``config.model.factory``, and the smallest runs of them."""

import math

import equinox as eqx
import flax.linen as nn
import jax
from experiment_runs import change
from flax import nnx

from ebmjax import networks
from experiments.configs import igebm_digits, jem_digits, thermo_digits


class Logits(nnx.Module):
    def __init__(self, image_shape, num_classes, width, rngs):
        self.norm = nnx.BatchNorm(image_shape[-1], rngs=rngs)
        self.hidden = nnx.Linear(math.prod(image_shape), width, rngs=rngs)
        self.head = nnx.Linear(width, num_classes, rngs=rngs)

    def __call__(self, images):
        return self.head(nnx.swish(self.hidden(self.norm(images).reshape(len(images), -1))))


def logits(image_shape, num_classes, rngs, width=4):
    return Logits(image_shape, num_classes, width, rngs)


class Energy(eqx.Module):
    hidden: eqx.nn.Linear
    table: jax.Array

    def __call__(self, image, label):
        return self.table[label] @ jax.nn.swish(self.hidden(image.ravel()))


def energy(key, image_shape, num_classes):
    hidden_key, table_key = jax.random.split(key)
    hidden = eqx.nn.Linear(math.prod(image_shape), 4, key=hidden_key)
    return Energy(hidden, jax.random.normal(table_key, (num_classes, 4)))


class Dense(nn.Module):
    """One layer, and outputs of ``shape``."""

    shape: tuple[int, ...]

    @nn.compact
    def __call__(self, x):
        return nn.Dense(math.prod(self.shape))(x.reshape(len(x), -1)).reshape(-1, *self.shape)


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = False):
        return Dense(())(nn.BatchNorm(not train)(x))


def pair(image_shape):
    return Dense(()), Dense(tuple(image_shape))


def from_own_functions(image_shape):
    """A plain linear energy, as a ``Network``."""

    def init(key, image):
        return jax.random.normal(key, image_shape)

    def inner(weights, images):
        return (weights[None] * images).sum((1, 2, 3))

    return networks.from_functions(init, inner, input_ndim=3)


def raises(image_shape):
    raise RuntimeError("no such file")


def number():
    return 3


def dense(shape=()):
    return Dense(tuple(shape))


def normalised():
    return Normalised()


class Dropped(nn.Module):
    """One layer of dropout that cannot be switched off, and one of weights."""

    @nn.compact
    def __call__(self, x):
        return Dense(())(nn.Dropout(0.5, deterministic=False)(x))


def dropped():
    return Dropped()


def needs(depth, image_shape):
    return Dense(())


FACTORY_RUNS = {
    "joint": (
        "configs/jem_digits.py:smoke",
        jem_digits,
        {
            "model.factory": "own_networks:logits",
            "model.options.width": 6,
            "evals.robustness.every": "never",
            "evals.ood.every": "never",
            "evals.landscape.every": "never",
        },
    ),
    "energy": (
        "configs/igebm_digits.py:smoke",
        igebm_digits,
        {"model.factory": "own_networks:energy", "model.is_conditional": True},
    ),
    "latent": (
        "configs/thermo_digits.py:smoke",
        thermo_digits,
        {"model.factory": "own_networks:pair"},
    ),
}


def configuration(family, changes=()):
    """The run's configuration, with changes by dotted field names."""
    _, file, fields = FACTORY_RUNS[family]
    config = file.get_config("smoke")
    return change(config, {**fields, **dict(changes)})
