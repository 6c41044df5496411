"""A classifier of three pixels into two classes, whose answers are known, and its chains."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import learning, samplers
from ebmjax.networks import Network, NormPolicy
from ebmjax.recipes.models.energy.model import EnergyModel, Trained

EPS = float(jnp.finfo(jnp.float32).eps)
WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], np.float32)  # (pixels, classes)


def linear(images):
    return images.reshape(*images.shape[:-3], 3) @ WEIGHTS


LINEAR = Network(
    init=lambda key, images: ({}, {}),
    apply=lambda params, statistics, images, **_: (linear(images), statistics),
    first_layer=lambda params, images: 2.0 * images,
    head=lambda params, statistics, hidden, **_: (linear(hidden / 2.0), statistics),
)
MODEL = Trained({}, {}, jnp.float32(0.5), {})
NETWORK = learning.JointNetwork(LINEAR, LINEAR, NormPolicy(), is_conditional=False)
NOTHING: Any = None
ENERGY = EnergyModel(
    plan=None,
    train=NOTHING,
    distances=None,
    config=NOTHING,
    network=NETWORK,
    logits_fn=lambda params, statistics, x: linear(x),
)


def chain_plan(num_samples=4, num_classes=2, **kind):
    descent = {"sampler": partial(samplers.gradient_descent, step_size=0.1), "num_steps": 2}
    return learning.ChainPlan(
        kinds={"descent": learning.ChainKind(**descent | kind)},
        num_samples=num_samples,
        num_classes=num_classes,
        start_fn=jax.tree_util.Partial(lambda key, label: jnp.full((3, 1, 1), label, jnp.float32)),
        reinit_prob=0.0,
    )
